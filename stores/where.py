"""Filters of a search by metadata, such as `year >= 2020 and author = "Lee"`: parsed, never evaluated as code.

    filter      = term { "or" term }
    term        = factor { "and" factor }
    factor      = "not" factor | "(" filter ")" | comparison
    comparison  = field ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) value
                | field [ "not" ] "in" "(" value { "," value } ")"
                | field "contains" text
                | field "is" [ "not" ] "missing"
    field       = a name, or any characters between backquotes
    value       = "text" or 'text' (a backslash before a quote or a backslash), a number, true, false

A comparison holds for no passage that lacks the field, or has a value of another type there (`!=` and `not in` hold for
another type); `not` is the complement of what follows it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from inference.errors import InputError
from stores.metadata import LARGEST, Value

LONGEST = 10_000
"""Characters of a filter."""
DEEPEST = 50
"""Levels of parentheses and `not`."""
OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
_KEYWORDS = frozenset({"and", "or", "not", "in", "contains", "is", "missing", "true", "false"})
_EXAMPLE = 'such as `year >= 2020 and (author = "Lee" or not author in ("Ray", "Kim"))`'
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<number>[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?(?![\w.]))
      | (?P<name>[^\W\d][\w.-]*)
      | (?P<quoted>`[^`]+`)
      | (?P<sign><=|>=|!=|==|<>|[=<>(),])
    )""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A field beside a value."""

    field: str
    operator: str
    """One of `OPERATORS`."""
    value: Value


@dataclass(frozen=True, slots=True)
class Contains:
    """A text of a field that has another in it; case matters."""

    field: str
    text: str


@dataclass(frozen=True, slots=True)
class Missing:
    """A field that a passage lacks."""

    field: str


@dataclass(frozen=True, slots=True)
class Not:
    """The complement."""

    inner: Filter


@dataclass(frozen=True, slots=True)
class All:
    """All parts hold."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """One part holds, or more."""

    parts: tuple[Filter, ...]


Filter = Comparison | Contains | Missing | Not | All | Either


class _Token(NamedTuple):
    kind: str
    """`text`, `number`, `name`, `keyword`, `sign`, or `end`."""
    text: str
    column: int


@lru_cache(maxsize=64)
def parse_where(text: str) -> Filter:
    """Parse a filter.

    Raises:
        InputError: It is malformed; the message says at which column (from 1).
    """
    if len(text) > LONGEST:
        raise InputError(f"where: has {len(text):,} characters, at most {LONGEST:,} are allowed")
    return _Parser(text).filter()


def fields_of(where: Filter) -> list[str]:
    """The fields that a filter names, in order."""
    match where:
        case Not(inner):
            return fields_of(inner)
        case All(parts) | Either(parts):
            return list(dict.fromkeys(name for part in parts for name in fields_of(part)))
        case Comparison() | Contains() | Missing():
            return [where.field]


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0
        self._depth = 0

    def filter(self) -> Filter:
        found = self._either()
        if self._now.kind != "end":
            raise _wrong("`and`, `or` or the end", self._now)
        return found

    @property
    def _now(self) -> _Token:
        return self._tokens[self._at]

    def _take(self, *words: str) -> _Token | None:
        """The next token if it is one of these keywords or signs."""
        now = self._now
        if now.kind not in ("keyword", "sign") or now.text not in words:
            return None
        self._at += 1
        return now

    def _need(self, word: str, what: str) -> None:
        if not self._take(word):
            raise _wrong(what, self._now)

    def _either(self) -> Filter:
        parts = [self._all()]
        while self._take("or"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _all(self) -> Filter:
        parts = [self._factor()]
        while self._take("and"):
            parts.append(self._factor())
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _factor(self) -> Filter:
        opened = self._now
        self._depth += 1
        if self._depth > DEEPEST:
            raise InputError(f"where, column {opened.column}: more than {DEEPEST} levels of parentheses and `not`")
        try:
            if self._take("not"):
                return Not(self._factor())
            if self._take("("):
                inner = self._either()
                self._need(")", f"`)` for the `(` at column {opened.column}")
                return inner
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Filter:
        name = self._now
        if name.kind != "name":
            raise _wrong("a field", name)
        self._at += 1
        if operator := self._take(*OPERATORS):
            return self._compared(name.text, operator)
        if self._take("contains"):
            wanted = self._now
            if wanted.kind != "text":
                raise _wrong("a text in quotes", wanted)
            self._at += 1
            return Contains(name.text, wanted.text)
        if self._take("is"):
            negated = self._take("not")
            self._need("missing", "`missing`")
            return Not(Missing(name.text)) if negated else Missing(name.text)
        negated = self._take("not")
        if self._take("in"):
            return self._listed(name.text, negated is not None)
        raise _wrong(f"{', '.join(OPERATORS)}, `in`, `contains` or `is` after {name.text!r}", self._now)

    def _compared(self, field: str, operator: _Token) -> Filter:
        value = self._value()
        if isinstance(value, bool) and operator.text not in ("=", "!="):
            raise InputError(
                f"where, column {operator.column}: true and false have no order", hint="compare them by = or !="
            )
        return Comparison(field, operator.text, value)

    def _listed(self, field: str, negated: bool) -> Filter:
        self._need("(", "`(` and values")
        values = [self._value()]
        while self._take(","):
            values.append(self._value())
        self._need(")", "`,` or `)`")
        if negated:
            return All(tuple(Comparison(field, "!=", value) for value in values))
        return Either(tuple(Comparison(field, "=", value) for value in values))

    def _value(self) -> Value:
        now = self._now
        if word := self._take("true", "false"):
            return word.text == "true"
        if now.kind not in ("text", "number"):
            raise _wrong('a value (a number, true, false, or a text in quotes, "like this")', now)
        self._at += 1
        if now.kind == "text":
            return now.text
        number = float(now.text) if any(mark in now.text for mark in ".eE") else int(now.text)
        if abs(number) > (LARGEST if isinstance(number, int) else sys.float_info.max):
            raise InputError(f"where, column {now.column}: the number is too large", hint=_EXAMPLE)
        return number


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        if not text[at:].strip():
            break
        match = _TOKEN.match(text, at)
        if match is None:
            column = at + len(text[at:]) - len(text[at:].lstrip()) + 1
            found = text[column - 1]
            if found in "\"'`":
                raise InputError(f"where, column {column}: the {found} is not closed", hint=_EXAMPLE)
            raise InputError(f"where, column {column}: unexpected {text[column - 1 : column + 9]!r}", hint=_EXAMPLE)
        kind = str(match.lastgroup)
        word, column = match[kind], match.start(kind) + 1
        at = match.end()
        if kind == "text":
            word = re.sub(r"""\\(["'\\])""", r"\1", word[1:-1])
        elif kind == "quoted":
            kind, word = "name", word[1:-1]
        elif kind == "name" and word.lower() in _KEYWORDS:
            kind, word = "keyword", word.lower()
        elif kind == "sign":
            word = {"==": "=", "<>": "!="}.get(word, word)
        yield _Token(kind, word, column)
    yield _Token("end", "", len(text) + 1)


def _wrong(expected: str, found: _Token) -> InputError:
    shown = "the end" if found.kind == "end" else repr(found.text[:40])
    return InputError(f"where, column {found.column}: expected {expected}, found {shown}", hint=_EXAMPLE)
