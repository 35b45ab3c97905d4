"""Format of prompt files: parsing, validation and rendering.

A file starts with a header between two `---` lines (YAML: `purpose`, `variables`, `source`, and `unused`, a list of the
variables that the text may omit), followed by the text. `{{name}}` is a variable, one of the header's or of `COMMON`,
and `{{{{` is an escape for two literal braces. A line `# system` starts the system message, if there is one, and a line
`# user` the user message after it; without either, the whole text is the user message.
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
from inference.errors import InputError

_VARIABLE = re.compile(r"\{\{\{\{|\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_BRACES = re.compile(_VARIABLE.pattern + r"|\{\{")
_ROLE = re.compile(r"^# (system|user)[ \t]*$", re.MULTILINE)
_NEWLINE = re.compile(r"\r\n?")
_HEADER_KEYS = {"purpose", "variables", "source", "unused"}
MAX_BYTES = 200_000
COMMON: Mapping[str, str] = {"no_answer": 'write "Not Answerable" as the answer'}
"""Variables available in every prompt, with default values: the instruction for unanswerable questions."""


@dataclass(frozen=True)
class Prompt:
    """A validated prompt."""

    name: str
    """`<method>/<role>`."""
    purpose: str
    source: str
    """Its source in the paper."""
    variables: Mapping[str, str]
    """Meaning of each variable."""
    unused: frozenset[str]
    """Variables that the text may omit."""
    messages: tuple[Message, ...]
    """Messages with unfilled variables."""
    origin: str
    """The file, or the context field, that it was read from."""

    @property
    def hash(self) -> str:
        """Twelve hex digits of the SHA-256 of the messages, independent of their origin."""
        text = "\0".join(f"{message.role}\0{message.content}" for message in self.messages)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def render(self, values: Mapping[str, str]) -> list[Message]:
        """Fill in the values verbatim, without escaping or recursive substitution.

        Raises:
            InputError: A value is missing.
        """
        missing = set(self.variables) - set(values)
        if missing:
            raise InputError(f"prompt {self.name}: no value for {', '.join(sorted(missing))}")

        def value(match: re.Match[str]) -> str:
            return {**COMMON, **values}[match[1]] if match[1] else "{{"

        return [Message(message.role, _VARIABLE.sub(value, message.content)) for message in self.messages]


@lru_cache(maxsize=256)
def parse_prompt(name: str, path: Path, text: str) -> Prompt:
    """Parse a shipped prompt file; cached by its text, because an edit may leave a file's time and size unchanged.

    Raises:
        InputError: It is malformed; the message names file and line.
    """
    header, body, offset = split_header(text, str(path))
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


def parse_replacement(shipped: Prompt, text: str, origin: str) -> Prompt:
    """Parse a text that replaces a shipped prompt; header fields that it omits are inherited.

    Raises:
        InputError: It is malformed, or its variables do not match the shipped prompt's.
    """
    header, body, offset = split_header(text, origin)
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


def read_text(path: Path) -> str:
    """Read a prompt file.

    Raises:
        InputError: It can't be read, is not UTF-8, or is longer than `MAX_BYTES`.
    """
    try:
        with path.open("rb") as file:
            return decode(file.read(MAX_BYTES + 1), str(path))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


def decode(raw: bytes, origin: str) -> str:
    """Decode a prompt's bytes and normalise its newlines; errors as `read_text`."""
    if len(raw) > MAX_BYTES:
        raise InputError(f"{origin}: longer than {MAX_BYTES:,} bytes, the maximum")
    try:
        return _NEWLINE.sub("\n", raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(f"{origin}:{line}: not UTF-8") from None


def split_header(text: str, origin: str) -> tuple[dict[str, Any] | None, str, int]:
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
    # Many chat templates accept at most one system message, followed by alternating user and assistant messages.
    for number, (role, line) in enumerate(zip(roles, lines, strict=True)):
        if role in roles[:number] or (role == "system" and number):
            raise InputError(f"{origin}:{line}: `# {role}` a second time, or after `# user`")
    if not texts[-1] or roles[-1] != "user":
        raise InputError(f"{origin}:{lines[-1]}: the user's message is missing", hint="it comes after a line `# user`")
    return tuple(
        Message("system" if role == "system" else "user", text) for role, text in zip(roles, texts, strict=True) if text
    )
