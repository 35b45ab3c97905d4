"""Prompts are Markdown files; this finds, checks and fills them.

A file starts with a header between two `---` lines (YAML: `purpose`, `variables`, `source`), followed by the text.
`{{name}}` stands for a variable and `{{{{` for two literal braces. A line `# system` or `# user` starts that message;
without one, all of the text is the user's message.

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

from inference.endpoint import Message
from inference.errors import InputError
from inference.settings import get_settings

__all__ = ["Prompt", "check_overlay", "load_prompt", "parse_override", "prompt_names"]

FOLDER = Path(__file__).parent
_NAME = re.compile(r"[a-z0-9_]+/[a-z0-9_]+")
_VARIABLE = re.compile(r"\{\{\{\{|\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_BRACES = re.compile(_VARIABLE.pattern + r"|\{\{")
_ROLE = re.compile(r"^# (system|user)[ \t]*$", re.MULTILINE)
_HEADER_KEYS = {"purpose", "variables", "source", "unused"}
MAX_BYTES = 200_000


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
            return values[match[1]] if match[1] else "{{"

        return [Message(message.role, _VARIABLE.sub(value, message.content)) for message in self.messages]


def prompt_names() -> list[str]:
    """Names of all prompts of the project, sorted."""
    return sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.glob("*/*.md"))


def load_prompt(name: str, override: str | None = None) -> Prompt:
    """The prompt `name`: from `override` if given, else from the overlay folder, else from the project.

    Files are looked at anew each time, so that a running process takes edits up.

    Args:
        name: `<method>/<role>`, such as `prism/selector`.
        override: Text of a call's context that takes the prompt's place.

    Raises:
        InputError: No such prompt, or its file is malformed; the message names the file and the line.
    """
    shipped = _shipped(name)
    if override is not None:
        return parse_override(name, override, f"prompt_{name.partition('/')[2]}")
    folder = get_settings().prompts
    if folder is None:
        return shipped
    if not folder.is_dir():
        raise InputError(f"HOPGRAPH_PROMPTS: no such folder: {folder}", hint="make it, or unset HOPGRAPH_PROMPTS")
    path = folder / f"{name}.md"
    return _replacement(shipped, _read(path), str(path)) if path.is_file() else shipped


def parse_override(name: str, text: str, origin: str) -> Prompt:
    """Check a text that takes the place of prompt `name`.

    Raises:
        InputError: It is malformed, or its variables are not those that the prompt is given.
    """
    return _replacement(_shipped(name), text, origin)


def check_overlay(folder: Path) -> list[tuple[Path, str | None]]:
    """Check every Markdown file of an overlay folder.

    Returns:
        Each file with what is wrong with it, or None.

    Raises:
        InputError: There is no such folder.
    """
    if not folder.is_dir():
        raise InputError(f"no such folder: {folder}")
    return [(path, _problem(path, folder)) for path in sorted(folder.rglob("*.md"))]


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
    stat = path.stat()
    return _parse_shipped(name, path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=256)
def _parse_shipped(name: str, path: Path, mtime: int, size: int) -> Prompt:
    """Cached by the file's time and size, so that an edited file is parsed again."""
    text = _read(path)
    header, body, offset = _split(text, str(path))
    if header is None:
        raise InputError(f"{path}:1: no header: the file must start with a line `---`")
    for key in ("purpose", "source"):
        if not isinstance(header.get(key), str) or not header[key].strip():
            raise InputError(f"{path}:1: header: {key} is missing or is not text")
    variables = _declared(header, str(path))
    unused = _unused(header, str(path))
    _check_variables(body, offset, variables, unused, str(path))
    return Prompt(name, header["purpose"], header["source"], variables, unused, _messages(body), str(path))


def _replacement(shipped: Prompt, text: str, origin: str) -> Prompt:
    header, body, offset = _split(text, origin)
    header = header or {}
    if "variables" in header and (unknown := set(_declared(header, origin)) - set(shipped.variables)):
        raise InputError(
            f"{origin}:1: header: {shipped.name} is not given {', '.join(sorted(unknown))}",
            hint=f"it is given {', '.join(shipped.variables)}",
        )
    unused = shipped.unused | _unused(header, origin)
    _check_variables(body, offset, shipped.variables, unused, origin)
    purpose = str(header.get("purpose") or shipped.purpose)
    source = str(header.get("source") or shipped.source)
    return Prompt(shipped.name, purpose, source, shipped.variables, unused, _messages(body), origin)


def _read(path: Path) -> str:
    try:
        raw = path.read_bytes()
        if len(raw) > MAX_BYTES:
            raise InputError(f"{path}: a prompt of {len(raw):,} bytes; at most {MAX_BYTES:,} are allowed")
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise InputError(f"{path}:{line}: not UTF-8") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


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
    if not isinstance(header, dict):
        raise InputError(f"{origin}:2: header: not a list of `key: value`")
    if unknown := set(map(str, header)) - _HEADER_KEYS:
        raise InputError(
            f"{origin}:2: header: unknown key {', '.join(sorted(unknown))}",
            hint=f"known keys: {', '.join(sorted(_HEADER_KEYS))}",
        )
    return header, text[end + 5 :], text[: end + 5].count("\n")


def _declared(header: Mapping[str, Any], origin: str) -> dict[str, str]:
    variables = header.get("variables") or {}
    if not isinstance(variables, dict):
        raise InputError(f"{origin}:1: header: variables must be `name: meaning`, a line each")
    return {str(name): str(meaning) for name, meaning in variables.items()}


def _unused(header: Mapping[str, Any], origin: str) -> frozenset[str]:
    unused = header.get("unused") or []
    if not isinstance(unused, list):
        raise InputError(f"{origin}:1: header: unused must be a list of variables")
    return frozenset(map(str, unused))


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
        if match[1] and match[1] not in known:
            raise InputError(
                f"{origin}:{line}: unknown variable {{{{{match[1]}}}}}", hint=f"known here: {', '.join(known)}"
            )
        used.add(match[1] or "")
    if missing := set(known) - used - unused:
        raise InputError(
            f"{origin}: never uses {', '.join(f'{{{{{name}}}}}' for name in sorted(missing))}",
            hint="use it, or list it in the header under `unused`",
        )


def _messages(body: str) -> tuple[Message, ...]:
    before, *parts = _ROLE.split(body)
    if not parts:
        return (Message("user", before.strip()),)
    texts = [("system", before), *zip(parts[::2], parts[1::2], strict=True)]
    return tuple(
        Message("system" if role == "system" else "user", text.strip()) for role, text in texts if text.strip()
    )
