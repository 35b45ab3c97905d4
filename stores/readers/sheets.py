"""Excel (xlsx), with openpyxl: a section a row."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from stores.metadata import Metadata, as_metadata
from stores.readers.office import guarded, opened
from stores.readers.sections import Parsed, Part, Section, table_rows


def read_xlsx(path: Path) -> Parsed:
    """An Excel file: the rows of all sheets, each with its column names. Formulas have the value that Excel stored.

    The names are in the first row with two filled cells or more, if all its cells are text. The rows above it are
    written as they are. The cells below them are metadata; of columns of the same name, the first filled one counts.

    Raises:
        InputError: It is damaged, encrypted or a bomb; also while sections are read.
    """
    with opened(path):
        import openpyxl

        # It reads one row after another.
        book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
        return Parsed(str(book.properties.title or ""), _sections(path, book))


def _sections(path: Path, book: Any) -> Iterator[Section]:
    with guarded(path):
        for sheet in book.worksheets:
            yield from _rows(sheet)


def _rows(sheet: Any) -> Iterator[Section]:
    name = " ".join(sheet.title.split())

    def section(number: int, text: str, fields: Metadata) -> Section:
        return Section(name, (Part(text, number, row=True),), (name,), f"sheet {name}, row", fields)

    sheet.reset_dimensions()  # what the file says about them may be wrong
    header: list[str] | None = None
    unused = 0
    for number, values in enumerate(sheet.iter_rows(values_only=True), start=1):
        row = [_text(value) for value in values]
        filled = sum(map(bool, row))
        if header is None and filled > 1:
            header = row if _are_names(values) else []
            if header:
                unused = number
                continue
        for text in table_rows([header, row], 1) if header and filled else table_rows([row], 0):
            unused = 0
            yield section(number, text, _fields(header or (), values))
    if header and unused:  # no row below them
        yield from (section(unused, text, {}) for text in table_rows([header], 1))


def _are_names(values: Sequence[object]) -> bool:
    return all(value is None or isinstance(value, str) for value in values)


def _fields(names: Sequence[str], values: Sequence[object]) -> Metadata:
    """The filled cells of a row by column name, with their types; dates as text."""
    found: dict[str, object] = {}
    for name, value in zip(names, values, strict=False):
        cell = value if isinstance(value, int | float) else _text(value)
        if name and cell != "":
            found.setdefault(name, cell)
    return as_metadata(found, "a cell")


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, datetime.datetime):
        return str(value.date() if value.time() == datetime.time() else value)
    return " ".join(str(value).split())
