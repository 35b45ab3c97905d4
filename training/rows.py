"""JSON Lines files: validated reading, with errors that name file, line and field, and atomic writing."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from inference.errors import InputError
from training.words import normalised


def malformed(where: str, complaint: str) -> InputError:
    """The error for a malformed row."""
    return InputError(f"{where}: {complaint}", hint="see data/SOURCES.md")


def rows_of(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Objects of a JSON Lines file, gzipped or plain, each with its location for error messages.

    Raises:
        InputError: It is missing or malformed.
    """
    number = 0
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise malformed(f"{path}, line {number}", "expected an object")
                yield f"{path}, line {number}", row
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", hint="give the data folder, such as DATA=../shared/data") from None
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise InputError(f"{path}: damaged after line {number} ({error})", hint="fetch the file again") from error


def text_of(row: Mapping[str, Any], field: str, where: str) -> str:
    """The text of a field.

    Raises:
        InputError: It is missing, blank or not a string.
    """
    value = row.get(field)
    if not isinstance(value, str) or not value.strip():
        raise malformed(where, f"field '{field}' must be a text")
    return value


def objects_of(row: Mapping[str, Any], field: str, where: str) -> list[dict[str, Any]]:
    """The objects of a field.

    Raises:
        InputError: It is missing or not a list of objects.
    """
    value = row.get(field)
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise malformed(where, f"field '{field}' must be a list of objects")
    return value


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write objects as JSON Lines, atomically; gzipped where the name ends in `.gz`. Equal rows give equal bytes."""
    fresh = path.with_suffix(".new")
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    fresh.write_bytes(gzip.compress(lines, mtime=0) if path.suffix == ".gz" else lines)
    fresh.replace(path)


def dev_questions(data: Path) -> set[str]:
    """Normalised dev questions of all data sets, and the sub-questions of their decompositions."""
    found = set()
    for path in sorted(data.glob("*/questions.jsonl.gz")):
        for where, row in rows_of(path):
            found.add(normalised(text_of(row, "question", where)))
            for part in row.get("decomposition", ()):
                found.add(normalised(part["question"] if isinstance(part, dict) else str(part)))
    return found
