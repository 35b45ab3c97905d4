"""Metadata of passages: fields with a text, a number, or true or false, that searches can filter by."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
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
        InputError: A number is not finite; the message begins with `where` and names the field.
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
            value = json.dumps(value, ensure_ascii=False, default=str)
        found[encodable(str(name))] = encodable(value) if isinstance(value, str) else value
    return found


class ColumnTypes:
    """Types of a table's columns, from all its rows.

    A column is of numbers if all its cells are, as people write them (`007` is none); likewise of `true` and `false`;
    else of text. Empty cells don't count.
    """

    def __init__(self, columns: Iterable[str]) -> None:
        self._kinds = {column: list(_KINDS) for column in columns if column.strip()}

    def see(self, row: Mapping[str, str]) -> None:
        """Take the cells of a row into account."""
        for column, kinds in self._kinds.items():
            if kinds and (cell := _squeezed(row[column])):
                kinds[:] = [kind for kind in kinds if kind[0](cell)]

    def metadata(self, row: Mapping[str, str]) -> dict[str, Value]:
        """The cells of a row as metadata; empty ones are left out."""
        cells = {column: _squeezed(row[column]) for column in self._kinds}
        return {
            column.strip(): (self._kinds[column][0][1] if self._kinds[column] else encodable)(cell)
            for column, cell in cells.items()
            if cell
        }


def _squeezed(cell: str) -> str:
    return " ".join(cell.split())


def _is_whole(cell: str) -> bool:
    return bool(_WHOLE.fullmatch(cell)) and abs(int(cell[:25])) <= LARGEST


def _is_number(cell: str) -> bool:
    return bool(_NUMBER.fullmatch(cell)) and math.isfinite(float(cell))


def _is_truth(cell: str) -> bool:
    return cell.lower() in ("true", "false")


_KINDS: tuple[tuple[Callable[[str], bool], Callable[[str], Value]], ...] = (
    (_is_whole, int),
    (_is_number, float),
    (_is_truth, lambda cell: cell.lower() == "true"),
)
"""Tests of cells, with what reads them; the first test that all cells of a column pass decides."""


def encodable(text: str) -> str:
    """Replace lone surrogates, which JSON can escape but UTF-8 can't encode."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
