"""Structured output: parses a reply into a typed value, and maps a field back to its tokens."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

Output = TypeVar("Output", bound=BaseModel)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse, strict=False)  # models put raw line breaks into strings
_LETTERS = re.compile(r"[a-z]+")
_SPACE = re.compile(r"[ \t\n\r]*")
_MAX_ATTEMPTS = 50
EACH = "*"
"""Path element that matches every item of an array."""
_MAX_ITEMS = 100


class Token(NamedTuple):
    """One generated token."""

    text: bytes
    logprob: float
    top: dict[str, float]
    """Log-probabilities of the most likely tokens at this position, by token text; empty unless requested."""


class Span(NamedTuple):
    """Half-open range of characters."""

    start: int
    end: int


class BadOutput(ValueError):
    """A reply that does not match the requested output. The message gives the reason, for a repair call."""


def well_formed(value: Any) -> Any:
    """`value` with lone surrogates replaced in all strings of lists and dicts, so that it can be encoded."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")
    if isinstance(value, list):
        return [well_formed(item) for item in value]
    if isinstance(value, dict):
        return {well_formed(key): well_formed(item) for key, item in value.items()}
    return value


def parse_output(text: str, output: type[Output], cut: list[str] | None = None) -> Output:
    """Parse a reply into `output`.

    A server that enforces schemas replies with exactly one JSON object. Others may put it in a code fence or between
    sentences: the first JSON object that matches is used.

    Args:
        text: The reply.
        output: The expected type.
        cut: Receives a note for each truncated text (`inference.limits.Limited`).

    Raises:
        BadOutput: No JSON object in the text matches.
    """
    problem = ""
    for value, _ in _objects(text):
        notes: list[str] = []
        try:
            read = output.model_validate(well_formed(value), context=notes)
        except RecursionError:
            raise BadOutput("the JSON is nested too deeply") from None
        except ValidationError as error:
            problem = problem or _problems(error)
        else:
            if cut is not None:
                cut.extend(notes)
            return read
    raise BadOutput(f"the JSON object does not fit the schema: {problem}")


def _problems(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, e['loc'])) or 'object'}: {e['msg']}" for e in error.errors()[:3])


def field_span(text: str, path: Sequence[str | int]) -> Span | None:
    """Character span of the value at `path` in a reply, without a string's quotes; None if missing.

    Found by walking the JSON, not by searching for the value, which may occur elsewhere. The last of duplicate keys
    counts, as in `json.loads`.
    """
    try:
        spans = (_at(text, span, path) for _, span in _objects(text))
        span = next((span for span in spans if span is not None), None)
    except (BadOutput, RecursionError):
        return None
    if span is None:
        return None
    return Span(span.start + 1, span.end - 1) if text[span.start] == '"' else span


def field_paths(text: str, path: Sequence[str | int]) -> list[Sequence[str | int]]:
    """Expand `EACH` in a path into one path per array item (100 at most), in order."""
    if EACH not in path:
        return [path]
    place = path.index(EACH)
    found: list[Sequence[str | int]] = []
    while len(found) < _MAX_ITEMS and field_span(text, [*path[:place], len(found)]) is not None:
        found.append([*path[:place], len(found), *path[place + 1 :]])
    return found


def field_logprobs(text: str, tokens: Sequence[Token], path: Sequence[str | int]) -> list[Token]:
    """The tokens that spell the value at `path`, all or part of it (PruneRAG's answer confidence is over these).

    Reply and tokens are aligned by their printable ASCII characters. Servers spell the rest in ways of their own: the
    parts of a character split between tokens come as bytes, as U+FFFD, or as nothing until the token that completes it;
    and a token's leading space may be missing.

    Args:
        text: The reply, without reasoning.
        tokens: All tokens of the completion; reasoning before the reply may be among them.
        path: Keys and indices from the top of the object.

    Returns:
        Empty when the field is missing or empty, or when the tokens do not spell the reply.
    """
    span = field_span(text, path)
    if span is None or span.start >= span.end:
        return []
    places = [at for at, character in enumerate(text) if "!" <= character <= "~"]
    spelled = bytes(byte for token in tokens for byte in token.text if _is_mark(byte))
    first = spelled.rfind("".join(text[at] for at in places).encode())
    if first < 0:
        return []

    def place(mark: int) -> int:
        """Offset of a mark in the reply; outside of every value if it is before or after the reply."""
        return -2 if mark < first else places[mark - first] if mark - first < len(places) else len(text) + 1

    found, mark = [], 0
    for token in tokens:
        inside = False
        for byte in token.text or b" ":
            if _is_mark(byte):
                inside |= span.start <= place(mark) < span.end
                mark += 1
            else:  # in the value if the marks on both sides are, or are its quotes
                inside |= place(mark - 1) >= span.start - 1 and place(mark) <= span.end
        if inside:
            found.append(token)
    return found


def true_probability(text: str, tokens: Sequence[Token], path: Sequence[str | int]) -> float | None:
    """Probability that the boolean at `path` is true, normalised over true and false.

    Alternatives of the value's first token are summed by the word they begin, ignoring case and leading punctuation. A
    word without listed alternatives has probability 0. If the server lists no alternatives, the other word gets the
    remaining probability.

    Args:
        text: The reply.
        tokens: All tokens of the completion, with their alternatives.
        path: Keys and indices from the top of the object.

    Returns:
        None if the field is missing or not a boolean, or if the tokens do not spell the reply.
    """
    span, spelled = field_span(text, path), field_logprobs(text, tokens, path)
    said = "" if span is None else text[span.start : span.end].casefold()
    if said not in ("true", "false") or not spelled:
        return None
    first = spelled[0]
    if not first.top:
        chosen = min(1.0, math.exp(sum(token.logprob for token in spelled)))
        return chosen if said == "true" else 1.0 - chosen
    mass = {"true": 0.0, "false": 0.0}
    for token, logprob in {**first.top, first.text.decode(errors="replace"): first.logprob}.items():
        begun = _LETTERS.search(token.casefold())
        for word in mass:
            # A token may continue after the word, as in `true}`.
            if begun and word.startswith(begun[0]):
                mass[word] += math.exp(logprob)
    total = mass["true"] + mass["false"]
    return mass["true"] / total if total else None


def _is_mark(byte: int) -> bool:
    return 33 <= byte <= 126


def _at(text: str, span: Span, path: Sequence[str | int]) -> Span | None:
    """Span of the value at `path` of the object at `span`."""
    for key in path:
        found = [inner for name, inner in _items(text, span.start) if name == key]
        if not found:
            return None
        span = found[-1]
    return span


def _objects(text: str) -> Iterator[tuple[dict[str, Any], Span]]:
    """The JSON objects in `text` with their spans. Text consumed by a malformed object is not scanned again."""
    if not text.strip():
        raise BadOutput("the reply is empty")
    problem, at, found = "", -1, False
    for _ in range(_MAX_ATTEMPTS):
        at = text.find("{", at + 1)
        if at < 0:
            break
        try:
            value, end = _DECODER.raw_decode(text, at)
        except RecursionError:
            raise BadOutput("the JSON is nested too deeply") from None
        except json.JSONDecodeError as error:
            problem = problem or f"the reply is not valid JSON: {error}"
            at = max(at, error.pos - 1)
        except ValueError as error:
            raise BadOutput(f"the reply is not valid JSON: {error}") from None
        else:
            found = True
            yield value, Span(at, end)
            at = end - 1
    if not found:
        raise BadOutput(problem or "there is no JSON object in the reply")


def _items(text: str, start: int) -> Iterator[tuple[str | int, Span]]:
    """Keys or indices of the object or array at `start`, with the spans of their values."""
    if text[start] not in "{[":
        return
    is_object = text[start] == "{"
    at, index = _skip(text, start + 1), 0
    while text[at] not in "}]":
        key: str | int = index
        if is_object:
            key, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)  # skip the colon
        _, end = _DECODER.raw_decode(text, at)
        yield key, Span(at, end)
        at, index = _skip(text, end), index + 1
        if text[at] == ",":
            at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
