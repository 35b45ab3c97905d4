"""Finds prompts: the shipped file, an overlay file, or a text from a call's context.

A prompt is replaced without changing code: edit the file; put a file of the same name into the overlay folder
(`HOPGRAPH_PROMPTS`), where the header may be omitted; or pass the text in a call's context (`prompt_<role>`). See
`prompts.parsing` for the format.
"""

from __future__ import annotations

import re
from pathlib import Path

from inference.errors import InputError, did_you_mean
from inference.settings import get_settings
from prompts.parsing import Prompt, decode, parse_prompt, parse_replacement, read_text, split_header

FOLDER = Path(__file__).parent
_NAME = re.compile(r"[a-z0-9_]+/[a-z0-9_]+")


def prompt_names() -> list[str]:
    """Names of all prompts of the project, sorted."""
    return sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.glob("*/*.md"))


def load_prompt(name: str, override: str | None = None, origin: str = "") -> Prompt:
    """The prompt `name`: from `override` if given, else from the overlay folder, else from the project.

    Files are read each time, so that a running process picks up edits.

    Args:
        name: `<method>/<role>`, such as `prism/selector`.
        override: Text of a call's context that replaces the prompt.
        origin: Name of that text in messages. Default: the field `prompt_<role>`.

    Raises:
        InputError: The prompt is unknown, or its file is malformed (the message names file and line), or the overlay
            folder has a file that matches no prompt.
    """
    shipped = _shipped(name)
    if override is not None:
        return parse_override(name, override, origin or f"prompt_{name.partition('/')[2]}")
    folder = get_settings().prompts
    if folder is None:
        return shipped
    if not folder.is_dir():
        raise InputError(f"HOPGRAPH_PROMPTS: no such folder: {folder}", hint="create it, or unset HOPGRAPH_PROMPTS")
    check_names(folder)
    path = folder / f"{name}.md"
    return parse_replacement(shipped, read_text(path), str(path)) if path.is_file() else shipped


def prompt_text(name: str) -> str:
    """The text of prompt `name` for editing in a call's context: as read by `load_prompt`, without its header.

    The header of an overlay file is kept, because an edited text may be invalid without its `unused`.

    Raises:
        InputError: As `load_prompt`.
    """
    prompt = load_prompt(name)
    text = read_text(Path(prompt.origin))
    return (text if prompt.origin != _shipped(name).origin else split_header(text, prompt.origin)[1]).strip()


def is_same_text(name: str, text: str) -> bool:
    """Whether a text is equal to the current file of prompt `name`; False for a malformed text."""
    try:
        return parse_override(name, text, name).messages == load_prompt(name).messages
    except InputError:
        return False


def parse_override(name: str, text: str, origin: str) -> Prompt:
    """Parse and validate a text that replaces prompt `name`.

    Raises:
        InputError: It is malformed, or its variables do not match the prompt's.
    """
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{origin}:{text[: error.start].count(chr(10)) + 1}: half of a surrogate pair") from None
    return parse_replacement(_shipped(name), decode(raw, origin), origin)


def check_overlay(folder: Path) -> list[tuple[Path, str | None]]:
    """Validate every Markdown file of an overlay folder.

    Returns:
        Each file with an error message, or None.

    Raises:
        InputError: The folder does not exist.
    """
    if not folder.is_dir():
        raise InputError(f"no such folder: {folder}")
    return [(path, _problem(path, folder)) for path in sorted({*_files(folder), *folder.glob("*/*/**/*.md")})]


def check_names(folder: Path) -> None:
    """Check that every Markdown file of an overlay folder, except READMEs, is named like a prompt.

    Raises:
        InputError: One is not, and would have no effect; the hint has the nearest name.
    """
    for path in _files(folder):
        name = path.relative_to(folder).with_suffix("").as_posix()
        if not _NAME.fullmatch(name) or not (FOLDER / f"{name}.md").is_file():
            raise InputError(f"{path}: no prompt named {name!r}", hint=_nearest(name))


def _files(folder: Path) -> list[Path]:
    """Markdown files of an overlay folder and the folders in it, sorted, without READMEs and hidden ones."""
    found = [path for pattern in ("*.md", "*/*.md") for path in folder.glob(pattern)]
    shown = [path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    return sorted(path for path in shown if path.stem.lower() != "readme" and path.is_file())


def _nearest(name: str) -> str:
    names = prompt_names()
    ends = [known for known in names if known.partition("/")[2] == name]
    near = f"did you mean {ends[0]!r}? " if ends else did_you_mean(name, names)
    return f"{near}`hopgraph prompts` lists them"


def _problem(path: Path, folder: Path) -> str | None:
    name = path.relative_to(folder).with_suffix("").as_posix()
    try:
        parse_replacement(_shipped(name), read_text(path), str(path))
    except InputError as error:
        return error.message
    return None


def _shipped(name: str) -> Prompt:
    path = FOLDER / f"{name}.md"
    if not _NAME.fullmatch(name) or not path.is_file():
        raise InputError(f"no prompt named {name!r}", hint="`hopgraph prompts` lists them")
    return parse_prompt(name, path, read_text(path))
