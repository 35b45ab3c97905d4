"""CSV and TSV files as passages, a row at a time."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from inference.errors import InputError
from stores.cutting import LONG_PASSAGE, MAX_WORDS, PartIds, shorten_sentences, split_passage
from stores.metadata import Column
from stores.passages import Passage
from stores.readers.encodings import clean_text, find_encoding
from stores.sentences import split_sentences

_MOST_CHARACTERS = 100_000_000
"""Of one cell."""
_BATCH = 512


def read_table(path: Path, name: str, max_words: int = MAX_WORDS) -> Iterator[Passage]:
    """The passages of a CSV or TSV file; see `stores.documents.load_documents`.

    All rows are checked before the first passage, and read in batches: a file may be larger than memory.

    Raises:
        InputError: It has no rows, or a row is invalid; the message names the line.
    """
    encoding = find_encoding(path)
    csv.field_size_limit(_MOST_CHARACTERS)
    header, options, types = _check_table(path, encoding)
    if types is None:
        raise InputError(f"{path}: a header and no rows", hint="the first line names the columns, the others are data")
    try:
        yield from _passages(path, name, max_words, encoding, header, options, types)
    except (csv.Error, ValueError) as error:  # all rows were checked before
        raise InputError(f"{path}: changed while it was read", hint="run the command again") from error


def _passages(
    path: Path,
    name: str,
    max_words: int,
    encoding: str,
    header: list[str],
    options: dict[str, Any],
    types: Mapping[str, Column],
) -> Iterator[Passage]:
    known = {column.strip().lower(): column for column in header}
    others = [column for column in header if column.strip() and column.strip().lower() not in ("id", "title", "text")]
    part_ids = PartIds(name)
    longest = max(LONG_PASSAGE, max_words)
    with path.open(newline="", encoding=encoding) as file:
        reader = csv.reader(file, **options)
        next(reader)
        rows = ((reader.line_num, dict(zip(header, row, strict=True))) for row in reader if _filled(row))
        while batch := list(islice(rows, _BATCH)):
            titles = [line(row.get(known.get("title", ""), "")) or path.stem.replace("_", " ") for _, row in batch]
            if "text" in known:
                texts = [clean_text(row[known["text"]]).strip() for _, row in batch]
                sentences = split_sentences(texts)
            else:
                sentences = [_cells(row, (known.get("id"), known.get("title"))) for _, row in batch]
                texts = ["\n".join(cells) for cells in sentences]
            for (number, row), title, text, split in zip(batch, titles, texts, sentences, strict=True):
                own = line(row.get(known.get("id", ""), ""))
                derived = part_ids.of(f"{title}\x1f{text}")
                whole = tuple(shorten_sentences(split, max_words))
                fields = {column.strip(): types[column].value(row[column]) for column in others if row[column].strip()}
                source = "" if own else name
                passage = Passage(own or derived, title, text, whole, source, page=f"line {number}", metadata=fields)
                yield from split_passage(passage, max_words=max_words, longer_than=longest)


def _filled(row: list[str]) -> bool:
    return any(cell.strip() for cell in row)


def line(text: str) -> str:
    """A text in one line, without control characters."""
    return " ".join(clean_text(text).split())


def _cells(row: dict[str, str], left_out: tuple[str | None, ...]) -> list[str]:
    cells = [(line(column), line(value)) for column, value in row.items() if column not in left_out]
    return [f"{column}: {value}" if column else value for column, value in cells if value]


def _check_table(path: Path, encoding: str) -> tuple[list[str], dict[str, Any], dict[str, Column] | None]:
    """Header, dialect, and the types of the columns, None without a filled row; all rows are checked."""
    with path.open(newline="", encoding=encoding) as file:
        first = file.readline(_MOST_CHARACTERS)
        marks = "\t" if path.suffix.lower() == ".tsv" else ",;\t|"
        delimiter = max(marks, key=lambda mark: len(next(csv.reader([first], delimiter=mark), [])))
        options: dict[str, Any] = {"delimiter": delimiter, "strict": True}
        file.seek(0)
        rows = csv.reader(file, **options)
        filled = False
        try:
            header = next(rows, [])
            _check_header(path, header)
            types = {column: Column() for column in header}
            for row in rows:
                if row and len(row) != len(header):
                    message = f"{path}, line {rows.line_num}: {len(row)} cells, but the header has {len(header)}"
                    raise InputError(message, hint=f"put quotes around cells that hold the delimiter {delimiter!r}")
                filled = filled or _filled(row)
                for column, cell in zip(header, row, strict=False):
                    types[column].see(cell)
        except csv.Error as error:
            message = f"{path}, line {rows.line_num}: not CSV ({error})"
            raise InputError(message, hint='a cell with quotes in it is written "like ""this"""') from None
    return header, options, types if filled else None


def _check_header(path: Path, header: list[str]) -> None:
    names = [column.strip().lower() for column in header]
    if not any(names):
        raise InputError(f"{path}, line 1: no column names", hint="the first line names the columns")
    if twice := next((column for column in names if names.count(column) > 1), None):
        raise InputError(f"{path}, line 1: column '{twice}' is there twice", hint="rename one of them")
