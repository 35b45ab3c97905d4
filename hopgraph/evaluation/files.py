"""Rows of question files with their locations: JSON, JSON Lines, CSV, TSV; plain or gzipped."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference.errors import InputError
from inference.structured import well_formed

_NAMES = {dict: "an object", list: "a list", str: "text", bool: "true/false", int: "a number", float: "a number"}


@dataclass(frozen=True)
class Row:
    """An object of a file; errors of its accessors name file, line and field."""

    values: dict[str, Any]
    where: str
    """File and line, or file and item."""
    number: int
    """Row number in the file, from 1."""
    columns: tuple[str, ...] = ()
    """Columns of its table; empty for JSON."""

    def __contains__(self, field: str) -> bool:
        return self.values.get(field) is not None

    def part(self, values: dict[str, Any]) -> Row:
        """A row of other values at the same location."""
        return Row(values, self.where, self.number)

    def wrong(self, field: str, what: str, hint: str = "") -> InputError:
        """The error of an invalid field."""
        return InputError(f"{self.where}: field {field!r} {what}", hint=hint or "docs/evaluation.md lists the fields")

    def text(self, field: str, *, empty: bool = False) -> str:
        """A stripped text; numbers and booleans are converted.

        Raises:
            InputError: It is missing, of another type or, unless `empty`, blank.
        """
        value = self.values.get(field)
        if value is None and empty:
            return ""
        if value is None and field in self.columns:
            raise self.wrong(field, "is empty")
        if value is None:
            found = ", ".join(self.columns)
            raise self.wrong(field, "is missing", f"the columns are {found[:200]}" if found else "")
        text = _as_text(value)
        if text is None:
            raise self.wrong(field, f"must be text, got {_kind(value)}")
        if not text and not empty:
            raise self.wrong(field, "is empty")
        return text

    def texts(self, field: str) -> tuple[str, ...]:
        """A list of texts, without blank ones; a single text is a list of one, a missing field an empty list."""
        value = self.values.get(field)
        rows = value if isinstance(value, list) else [] if value is None else [value]
        found = [_as_text(row) for row in rows]
        if None in found:
            raise self.wrong(field, f"must be a list of texts, contains {_kind(rows[found.index(None)])}")
        return tuple(text for text in found if text)

    def whole(self, field: str) -> int | None:
        """A whole number of at least 0, or None."""
        value = self.values.get(field)
        if value is None or value == "":
            return None
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise self.wrong(field, f"must be a whole number, got {_kind(value)}")
        try:
            number = int(value)
        except ValueError:
            number = -1
        if number < 0:
            raise self.wrong(field, f"must be a whole number of at least 0, got {str(value)[:40]!r}")
        return number

    def flag(self, field: str, default: bool) -> bool:
        """A boolean."""
        value = self.values.get(field, default)
        if not isinstance(value, bool):
            raise self.wrong(field, f"must be true or false, got {_kind(value)}")
        return value

    def rows(self, field: str) -> list[Row]:
        """A list of objects; empty if missing."""
        value = self.values.get(field)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.wrong(field, f"must be a list of objects, got {_kind(value)}")
        return [Row(item, f"{self.where}, {field}[{at}]", self.number) for at, item in enumerate(value)]

    def pairs(self, field: str, second: Callable[[Any], bool], what: str) -> list[tuple[str, Any]]:
        """A list of pairs of a text and another value; empty if missing.

        Args:
            field: The field.
            second: Whether the second item of a pair is valid.
            what: Name of the second item in the error.
        """
        value = self.values.get(field)
        if value is None:
            return []
        good = isinstance(value, list) and all(
            isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and second(pair[1]) for pair in value
        )
        if not good:
            raise self.wrong(field, f"must be a list of [title, {what}]")
        return [(well_formed(title), well_formed(rest)) for title, rest in value]


def read_file(path: Path) -> Iterator[Row]:
    """Rows of a file, in order.

    `.csv` and `.tsv` files start with a line of column names. All others are JSON Lines, or one JSON value: an object
    or a list of objects.

    Raises:
        InputError: The file can't be read or a row is not an object; the message names file and line.
    """
    text = _read(path)
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix in (".csv", ".tsv"):
        yield from _table(path, text, "\t" if suffix == ".tsv" else ",")
    elif (whole := _one_value(path, text)) is not None:
        rows = whole if isinstance(whole, list) else [whole]
        for number, item in enumerate(rows, start=1):
            where = f"{path}, item {number}" if isinstance(whole, list) else str(path)
            yield Row(_object(item, where), where, number)
        if not rows:
            raise InputError(f"{path}: has no questions")
    else:
        yield from _lines(path, text)


def _read(path: Path) -> str:
    try:
        raw = path.read_bytes()
        raw = gzip.decompress(raw) if path.suffix == ".gz" else raw
        return raw.decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", hint="check the path; it is relative to the current folder") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(f"{path}, line {line}: not UTF-8 ({error.reason})", hint="save as UTF-8") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}: damaged gzip data ({error})", hint="download or compress the file again") from None
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror or error})", hint="give a readable file") from None


def _one_value(path: Path, text: str) -> Any | None:
    """The file's only JSON value; None for JSON Lines."""
    first, _, rest = text.lstrip().partition("\n")
    if first.startswith("{") and (not rest.strip() or _is_json(first)):
        return None
    if not first.startswith(("[", "{")):
        return None
    try:
        return json.loads(text)
    except RecursionError:
        raise InputError(f"{path}: nested too deeply") from None
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        raise InputError(f"{path}, line {line}: not JSON ({error})", hint="is the file complete?") from None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _lines(path: Path, text: str) -> Iterator[Row]:
    count = 0
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: not JSON ({error})", hint="JSON Lines have one object per line") from None
        count += 1
        yield Row(_object(value, where), where, count)
    if not count:
        raise InputError(f"{path}: has no questions")


def _table(path: Path, text: str, delimiter: str) -> Iterator[Row]:
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    number = 0
    try:
        names = [name.strip().lower() for name in reader.fieldnames or []]
        reader.fieldnames = names
        if len(names) == 1 and (mark := next((mark for mark in ",;\t" if mark in names[0]), None)):
            right = "tabs" if delimiter == "\t" else "commas"
            raise InputError(
                f"{path}, line 1: a single column {names[0][:200]!r}",
                hint=f"separate columns with {right}, not {mark!r}",
            )
        for row in reader:
            where = f"{path}, line {reader.line_num}"
            if None in row or None in row.values():
                raise InputError(f"{where}: must have {len(names)} columns, like the first line")
            if any(value.strip() for value in row.values()):
                number += 1
                yield Row({key: value for key, value in row.items() if value.strip()}, where, number, tuple(names))
    except csv.Error as error:
        raise InputError(f"{path}, after line {reader.line_num}: {error}", hint="is a quote not closed?") from None
    if not number:
        raise InputError(f"{path}: has no questions", hint="the first line names columns, such as question,answer")


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected an object, got {_kind(value)}")
    return value


def _as_text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str | int | float):
        return str(well_formed(str(value))).strip()
    return None


def _kind(value: Any) -> str:
    return "null" if value is None else _NAMES.get(type(value), type(value).__name__)
