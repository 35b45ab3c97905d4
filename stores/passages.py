"""Passages, and reading them from JSON Lines files."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from inference.errors import InputError
from stores.metadata import Metadata, as_metadata, encodable

LONGEST_LINE = 100_000_000
"""Bytes of a line of JSON Lines."""
_OWN = ("id", "title", "text", "sentences")


@dataclass(frozen=True, slots=True)
class Passage:
    """The unit of retrieval."""

    id: str
    title: str
    text: str
    sentences: tuple[str, ...] = ()
    """Its sentences in order; used as given, and always filled in an index."""
    source: str = ""
    """Id of the article or document this passage was split from; "" if it was not split."""
    file: str = field(default="", compare=False)
    """Name of the file it was read from; "" if none. Not part of the content."""
    page: str = field(default="", compare=False)
    """Where in its document it is, such as `page 3`, `pages 3-4`, `slide 2`; "" if unknown. Not part of the content."""
    headings: tuple[str, ...] = field(default=(), compare=False)
    """The path of headings above it, outermost first. Not part of the content."""
    metadata: Metadata = field(default_factory=dict, hash=False)
    """Its further fields, which searches can filter by."""


def content_id(title: str, text: str) -> str:
    """A stable id for a passage without one, a hash of title and text."""
    return "p-" + hashlib.sha256(f"{title}\x1f{text}".encode()).hexdigest()[:16]


def read_passages(path: Path) -> Iterator[Passage]:
    """Passages of a JSON Lines file, plain or `.gz`, in file order.

    A line is an object with `text` and optionally `id`, `title` and `sentences` (strings); other fields are metadata.
    Empty texts and duplicate ids are returned; the index build reports them.

    Raises:
        InputError: The file can't be read, or a line is invalid; the message names file, line and field.
    """
    return (passage for _, passage in read_numbered(path))


def read_numbered(path: Path) -> Iterator[tuple[int, Passage]]:
    """As `read_passages`, each passage with its line number (from 1)."""
    number = 0
    try:
        with _open(path) as file:
            for number, raw in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), start=1):
                if len(raw) > LONGEST_LINE:
                    message = f"{path}, line {number}: more than {LONGEST_LINE / 1e6:,.0f} MB"
                    raise InputError(message, hint="each line is one passage")
                if raw.strip():
                    yield number, _parse(raw, f"{path}, line {number}")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(
            f"{path}: damaged gzip data after line {number} ({error})", hint="fetch or compress the file again"
        ) from error
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", hint="check the path; it is relative to the current folder") from None
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror or error})", hint="give a readable file") from error


def check_numbered(path: Path) -> None:
    """Check all lines of a JSON Lines file. Errors as for `read_passages`."""
    for _ in read_numbered(path):
        pass


def _open(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def _parse(raw: bytes, where: str) -> Passage:
    try:
        row = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8 ({error.reason} at byte {error.start})", hint="save as UTF-8") from None
    except (ValueError, RecursionError) as error:
        hint = 'each line is one object such as {"text": "..."}'
        raise InputError(f"{where}: not JSON ({error})", hint=hint) from None
    return as_passage(row, where)


def as_passage(row: object, where: str) -> Passage:
    """Convert an object of a JSON Lines file to a passage.

    Raises:
        InputError: It is invalid; the message begins with `where` and names the field.
    """
    if not isinstance(row, dict):
        raise InputError(f"{where}: expected an object, got {_type(row)}", hint='a line looks like {"text": "..."}')
    if "text" not in row:
        raise InputError(f"{where}: field 'text' is missing", hint="every passage needs a text")
    text = _string(row, "text", where)
    title = _string(row, "title", where)
    sentences = row.get("sentences") or ()
    if not isinstance(sentences, list | tuple) or not all(isinstance(sentence, str) for sentence in sentences):
        raise InputError(f"{where}: field 'sentences' must be a list of strings", hint="or leave it out: it is derived")
    identifier = row.get("id")
    if isinstance(identifier, int) and not isinstance(identifier, bool):
        row = {**row, "id": str(identifier)}
    return Passage(
        id=_string(row, "id", where).strip() or content_id(title, text),
        title=title,
        text=text,
        sentences=tuple(encodable(sentence) for sentence in sentences if sentence.strip()),
        metadata=as_metadata({name: value for name, value in row.items() if name not in _OWN}, where),
    )


def _string(row: dict[str, Any], field: str, where: str) -> str:
    value = row.get(field)
    if value is None and field != "text":
        return ""
    if not isinstance(value, str):
        raise InputError(f"{where}: field '{field}' must be a string, got {_type(value)}", hint="see the file format")
    return encodable(value)


def _type(value: object) -> str:
    if value is None:
        return "null"
    return {"dict": "an object", "list": "a list", "str": "a string", "bool": "true/false"}.get(
        type(value).__name__, "a number"
    )
