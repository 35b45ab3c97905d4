"""Prompts are Markdown files; this finds, checks and fills them.

A file starts with a header between two `---` lines (YAML: `purpose`, `variables`, `source`, and `unused`, a list of the
variables that the text does without), followed by the text. `{{name}}` stands for a variable, one of the header's or of
`COMMON`, and `{{{{` for two literal braces. A line `# system` starts the system message, if there is one, and a line
`# user` the user's message after it; without either, all of the text is the user's message.

A prompt is swapped without touching code: edit the file; put a file of the same name into the overlay folder
(`HOPGRAPH_PROMPTS`), where the header may be left out; or give the text in a call's context (`prompt_<role>`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from inference.chat import Message
from inference.errors import InputError, did_you_mean
from inference.settings import get_settings

__all__ = [
    "Prompt",
    "check_names",
    "check_overlay",
    "is_same_text",
    "load_prompt",
    "parse_override",
    "prompt_names",
    "prompt_text",
]

FOLDER = Path(__file__).parent
_NAME = re.compile(r"[a-z0-9_]+/[a-z0-9_]+")
_VARIABLE = re.compile(r"\{\{\{\{|\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_BRACES = re.compile(_VARIABLE.pattern + r"|\{\{")
_ROLE = re.compile(r"^# (system|user)[ \t]*$", re.MULTILINE)
_NEWLINE = re.compile(r"\r\n?")
_HEADER_KEYS = {"purpose", "variables", "source", "unused"}
MAX_BYTES = 200_000
COMMON: Mapping[str, str] = {"no_answer": 'write "Not Answerable" as the answer'}
"""Variables that every prompt may use, with their values where none is given: what to do where there is no answer."""


@dataclass(frozen=True)
class Prompt:
    """A checked prompt."""

    name: str
    """`<method>/<role>`."""
    purpose: str
    source: str
    """Where in the paper it comes from."""
    variables: Mapping[str, str]
    """What each variable stands for."""
    unused: frozenset[str]
    """Variables that the text need not use."""
    messages: tuple[Message, ...]
    """With the variables still in them."""
    origin: str
    """The file, or the context field, that it was read from."""

    @property
    def hash(self) -> str:
        """Twelve hex digits of the SHA-256 of the text: equal texts, equal hashes, wherever they were read from."""
        text = "\0".join(f"{message.role}\0{message.content}" for message in self.messages)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def render(self, values: Mapping[str, str]) -> list[Message]:
        """Fill in the values, verbatim: nothing in them is escaped, interpreted or filled in again.

        Raises:
            InputError: A value is missing.
        """
        missing = set(self.variables) - set(values)
        if missing:
            raise InputError(f"prompt {self.name}: no value for {', '.join(sorted(missing))}")

        def value(match: re.Match[str]) -> str:
            return {**COMMON, **values}[match[1]] if match[1] else "{{"

        return [Message(message.role, _VARIABLE.sub(value, message.content)) for message in self.messages]


def prompt_names() -> list[str]:
    """Names of all prompts of the project, sorted."""
    return sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.glob("*/*.md"))


def load_prompt(name: str, override: str | None = None, origin: str = "") -> Prompt:
    """The prompt `name`: from `override` if given, else from the overlay folder, else from the project.

    Files are looked at anew each time, so that a running process takes edits up.

    Args:
        name: `<method>/<role>`, such as `prism/selector`.
        override: Text of a call's context that takes the prompt's place.
        origin: What messages call that text. Default: the field `prompt_<role>`.

    Raises:
        InputError: No such prompt, or its file is malformed; the message names the file and the line. Or the overlay
            folder has a file that is named like no prompt.
    """
    shipped = _shipped(name)
    if override is not None:
        return parse_override(name, override, origin or f"prompt_{name.partition('/')[2]}")
    folder = get_settings().prompts
    if folder is None:
        return shipped
    if not folder.is_dir():
        raise InputError(f"HOPGRAPH_PROMPTS: no such folder: {folder}", hint="make it, or unset HOPGRAPH_PROMPTS")
    check_names(folder)
    path = folder / f"{name}.md"
    return _replacement(shipped, _read(path), str(path)) if path.is_file() else shipped


def prompt_text(name: str) -> str:
    """The text of prompt `name` as a person edits it in a call's context: what `load_prompt` reads, without its header.

    A header of the overlay folder's file is kept: an edited text without its `unused` might be refused.

    Raises:
        InputError: As `load_prompt`.
    """
    prompt = load_prompt(name)
    text = _read(Path(prompt.origin))
    return (text if prompt.origin != _shipped(name).origin else _split(text, prompt.origin)[1]).strip()


def is_same_text(name: str, text: str) -> bool:
    """Whether a text says what the file of prompt `name` says now; a malformed one does not."""
    try:
        return parse_override(name, text, name).messages == load_prompt(name).messages
    except InputError:
        return False


def parse_override(name: str, text: str, origin: str) -> Prompt:
    """Check a text that takes the place of prompt `name`.

    Raises:
        InputError: It is malformed, or its variables are not those that the prompt is given.
    """
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{origin}:{text[: error.start].count(chr(10)) + 1}: half of a surrogate pair") from None
    return _replacement(_shipped(name), _decode(raw, origin), origin)


def check_overlay(folder: Path) -> list[tuple[Path, str | None]]:
    """Check every Markdown file of an overlay folder.

    Returns:
        Each file with what is wrong with it, or None.

    Raises:
        InputError: There is no such folder.
    """
    if not folder.is_dir():
        raise InputError(f"no such folder: {folder}")
    return [(path, _problem(path, folder)) for path in sorted({*_files(folder), *folder.glob("*/*/**/*.md")})]


def check_names(folder: Path) -> None:
    """See that every Markdown file of an overlay folder is named like a prompt, but for READMEs.

    Raises:
        InputError: One is not, and would replace nothing; the hint has the nearest name.
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
        _replacement(_shipped(name), _read(path), str(path))
    except InputError as error:
        return error.message
    return None


def _shipped(name: str) -> Prompt:
    path = FOLDER / f"{name}.md"
    if not _NAME.fullmatch(name) or not path.is_file():
        raise InputError(f"no prompt named {name!r}", hint="`hopgraph prompts` lists them")
    return _parse_shipped(name, path, _read(path))


@lru_cache(maxsize=256)
def _parse_shipped(name: str, path: Path, text: str) -> Prompt:
    """Cached by the text itself: a file's time and size may stay the same when it is edited."""
    header, body, offset = _split(text, str(path))
    if header is None:
        raise InputError(f"{path}:1: no header: the file must start with a line `---`")
    for key in ("purpose", "source"):
        if not isinstance(header.get(key), str) or not header[key].strip():
            raise InputError(f"{path}:{_line_of(key, text)}: header: {key} is missing or is not text")
    variables = _declared(header, text, str(path))
    unused = _unused(header, text, variables, str(path))
    _check_variables(body, offset, variables, unused, str(path))
    messages = _messages(body, offset, str(path))
    return Prompt(name, header["purpose"], header["source"], variables, unused, messages, str(path))


def _replacement(shipped: Prompt, text: str, origin: str) -> Prompt:
    header, body, offset = _split(text, origin)
    header = header or {}
    if unknown := set(_declared(header, text, origin)) - set(shipped.variables):
        name = min(unknown)
        raise InputError(
            f"{origin}:{_line_of(name, text)}: header: {shipped.name} is not given {name}",
            hint=f"it is given {', '.join(shipped.variables)}",
        )
    unused = shipped.unused | _unused(header, text, shipped.variables, origin)
    _check_variables(body, offset, shipped.variables, unused, origin)
    purpose = str(header.get("purpose") or shipped.purpose)
    source = str(header.get("source") or shipped.source)
    return Prompt(shipped.name, purpose, source, shipped.variables, unused, _messages(body, offset, origin), origin)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return _decode(file.read(MAX_BYTES + 1), str(path))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


def _decode(raw: bytes, origin: str) -> str:
    if len(raw) > MAX_BYTES:
        raise InputError(f"{origin}: longer than {MAX_BYTES:,} bytes, the most that a prompt may have")
    try:
        return _NEWLINE.sub("\n", raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(f"{origin}:{line}: not UTF-8") from None


def _split(text: str, origin: str) -> tuple[dict[str, Any] | None, str, int]:
    """Header, text, and the number of lines before the text."""
    import yaml

    if not text.startswith("---\n"):
        return None, text, 0
    end = text.find("\n---\n", 3)
    if end < 0:
        raise InputError(f"{origin}:1: the header is not closed by a line `---`")
    try:
        header = yaml.safe_load(text[4 : end + 1]) or {}
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = 2 + (mark.line if mark else 0)
        raise InputError(f"{origin}:{line}: header: {getattr(error, 'problem', None) or 'not YAML'}") from None
    except RecursionError:
        raise InputError(f"{origin}:2: header: nested too deeply") from None
    if not isinstance(header, dict):
        raise InputError(f"{origin}:2: header: not a list of `key: value`")
    if unknown := set(map(str, header)) - _HEADER_KEYS:
        key = min(unknown)
        raise InputError(
            f"{origin}:{_line_of(key, text)}: header: unknown key {key}",
            hint=f"known keys: {', '.join(sorted(_HEADER_KEYS))}",
        )
    return header, text[end + 5 :], text[: end + 5].count("\n")


def _line_of(key: str, text: str) -> int:
    """The line of a header's key, or the header's first line."""
    found = re.search(rf"^[ \t]*{re.escape(key)}[ \t]*:", text, re.MULTILINE)
    return text.count("\n", 0, found.start()) + 1 if found else 1


def _declared(header: Mapping[str, Any], text: str, origin: str) -> dict[str, str]:
    variables = header.get("variables") or {}
    if not isinstance(variables, dict) or not all(isinstance(x, str) for pair in variables.items() for x in pair):
        line = _line_of("variables", text)
        raise InputError(f"{origin}:{line}: header: variables must be `name: meaning`, a line each")
    return dict(variables)


def _unused(header: Mapping[str, Any], text: str, known: Mapping[str, str], origin: str) -> frozenset[str]:
    unused = header.get("unused") or []
    if not isinstance(unused, list) or not all(isinstance(name, str) and name in known for name in unused):
        line = _line_of("unused", text)
        raise InputError(
            f"{origin}:{line}: header: unused must be a list of variables", hint=f"known here: {', '.join(known)}"
        )
    return frozenset(unused)


def _check_variables(body: str, offset: int, known: Mapping[str, str], unused: frozenset[str], origin: str) -> None:
    if not body.strip():
        raise InputError(f"{origin}:{offset + 1}: the prompt has no text")
    used: set[str] = set()
    for match in _BRACES.finditer(body):
        line = offset + body.count("\n", 0, match.start()) + 1
        if match[0] == "{{":
            raise InputError(
                f"{origin}:{line}: `{{{{` does not start a variable", hint="write {{{{ for two literal braces"
            )
        if match[1] and match[1] not in known and match[1] not in COMMON:
            raise InputError(
                f"{origin}:{line}: unknown variable {{{{{match[1]}}}}}", hint=f"known here: {', '.join(known)}"
            )
        used.add(match[1] or "")
    if missing := set(known) - used - unused:
        raise InputError(
            f"{origin}: never uses {', '.join(f'{{{{{name}}}}}' for name in sorted(missing))}",
            hint="use it, or list it in the header under `unused`",
        )


def _messages(body: str, offset: int, origin: str) -> tuple[Message, ...]:
    marks = list(_ROLE.finditer(body))
    if not marks:
        return (Message("user", body.strip()),)
    roles = [mark[1] for mark in marks]
    starts = [0, *(mark.end() for mark in marks)]
    ends = [*(mark.start() for mark in marks), len(body)]
    before, *texts = [body[start:end].strip() for start, end in zip(starts, ends, strict=True)]
    lines = [offset + body.count("\n", 0, mark.start()) + 1 for mark in marks]
    if before:
        raise InputError(f"{origin}:{offset + 1}: text before the line `# {roles[0]}`")
    # Chat templates of many models take one system message at most, and user and assistant in turns after it.
    for number, (role, line) in enumerate(zip(roles, lines, strict=True)):
        if role in roles[:number] or (role == "system" and number):
            raise InputError(f"{origin}:{line}: `# {role}` a second time, or after `# user`")
    if not texts[-1] or roles[-1] != "user":
        raise InputError(f"{origin}:{lines[-1]}: the user's message is missing", hint="it comes after a line `# user`")
    return tuple(
        Message("system" if role == "system" else "user", text) for role, text in zip(roles, texts, strict=True) if text
    )
