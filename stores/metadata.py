"""Metadata of passages: fields with a text, a number, or true or false, that searches can filter by."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import date
from typing import Any

from inference.errors import InputError

Value = str | int | float | bool
Metadata = Mapping[str, Value]

LARGEST = 2**63 - 1
"""Whole numbers beyond it, of either sign, are kept as text: SQLite compares no larger ones exactly."""
_WHOLE = re.compile(r"[+-]?(?:0|[1-9][0-9]*)", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)


def as_metadata(row: Mapping[Any, Any], where: str) -> dict[str, Value]:
    """Fields of a JSON or YAML object as metadata.

    Null is left out; dates become their ISO text, and lists and objects their JSON text.

    Raises:
        InputError: A number is not finite, or a list contains itself; the message begins with `where` and names the
            field.
    """
    found: dict[str, Value] = {}
    for name, value in row.items():
        if value is None:
            continue
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{where}: field {name!r} is {value}, not a number", hint="leave it out, or write null")
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST:
            value = str(value)
        if isinstance(value, date):
            value = value.isoformat()
        if not isinstance(value, str | int | float):
            value = _json(value, f"{where}: field {name!r}")
        found[encodable(str(name))] = encodable(value) if isinstance(value, str) else value
    return found


def _json(value: object, where: str) -> str:
    try:
        try:
            return json.dumps(value, ensure_ascii=False, default=str)
        except TypeError:  # a key that JSON has none of, such as a date of YAML
            return json.dumps(_with_text_keys(value), ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        raise InputError(f"{where} contains itself, or is nested too deeply", hint="leave it out") from None


def _with_text_keys(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _with_text_keys(inner) for key, inner in value.items()}
    return [_with_text_keys(inner) for inner in value] if isinstance(value, list | tuple) else value


class Column:
    """The type of a table's column: of numbers if all its filled cells are, as people write them (`007` is none, nor is
    a whole number beyond `LARGEST`); likewise of `true` and `false`; else of text.
    """

    def __init__(self) -> None:
        self._number = self._truth = True

    def see(self, cell: str) -> None:
        """Take a cell into account; an empty one tells nothing."""
        if cell := " ".join(cell.split()):
            self._number = self._number and _is_number(cell)
            self._truth = self._truth and cell.lower() in ("true", "false")

    def value(self, cell: str) -> Value:
        """The value of a filled cell that was seen."""
        cell = " ".join(cell.split())
        if self._number:
            return int(cell) if _WHOLE.fullmatch(cell) else float(cell)
        return cell.lower() == "true" if self._truth else encodable(cell)


def _is_number(cell: str) -> bool:
    if _WHOLE.fullmatch(cell):
        return abs(int(cell[:25])) <= LARGEST
    return bool(_NUMBER.fullmatch(cell)) and math.isfinite(float(cell))


def encodable(text: str) -> str:
    """Replace lone surrogates, which JSON can escape but UTF-8 can't encode."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
