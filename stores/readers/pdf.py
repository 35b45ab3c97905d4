"""PDF, with pypdf: text by page, and the headings of the outline where they stand in the text."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inference.errors import InputError
from stores.readers.encodings import clean_text
from stores.readers.sections import Parsed, Part, Section, keep_headings

if TYPE_CHECKING:
    from pypdf import PdfReader

_LOCKED_ERRORS = ("FileNotDecryptedError", "WrongPasswordError", "DependencyError")
_MOST_HEADINGS = 10_000
_LETTER_OR_PAGE = re.compile(r"[^\W\d_]|\A\W*\d+(?:\s*[/|]\s*\d+)?\W*\Z")
_UNLOCK = "save it without one, for example by printing it to a PDF"


def read_pdf(path: Path) -> Parsed:
    """A PDF file.

    Raises:
        InputError: It is damaged (the message names the page), encrypted or without text.
    """
    import pypdf

    pages: list[str] = []
    try:
        with _quiet("pypdf"), path.open("rb") as file:
            reader = pypdf.PdfReader(file)
            if reader.is_encrypted and not reader.decrypt(""):
                raise InputError(f"{path}: protected by a password", hint=_UNLOCK)
            for page in reader.pages:
                pages.append(clean_text(page.extract_text()))
            title = str(reader.metadata.title or "") if reader.metadata else ""
            outline = _outline(reader)
    except (ImportError, InputError, OSError, MemoryError):
        raise
    # On a damaged file, the reader may raise any exception.
    except Exception as error:
        kind = type(error).__name__
        if kind in _LOCKED_ERRORS:
            raise InputError(f"{path}: protected by a password", hint=_UNLOCK) from error
        where = f"{path}, page {len(pages) + 1}" if pages else str(path)
        message = f"{where}: damaged, or not a PDF ({kind}: {error})"
        raise InputError(message, hint="open it in a viewer and save it again") from error
    texts = _without_furniture(pages)
    if not any(text.strip() for text in texts):
        hint = "it may be scanned images: recognise the text first, for example with ocrmypdf"
        raise InputError(f"{path}: no text on its {len(pages)} page(s)", hint=hint)
    if re.match(r"untitled|microsoft \w+ - ", title, re.IGNORECASE):
        title = ""
    return Parsed(title, _sections(texts, outline))


def _sections(texts: list[str], outline: dict[int, list[tuple[int, str]]]) -> list[Section]:
    """Text by heading; without an outline, one section. Sentences may continue on the next page."""
    sections = [Section("", [])]
    path: list[tuple[int, str]] = []
    for number, text in enumerate(texts, start=1):
        # Join words hyphenated at line ends.
        text = re.sub(r"(?<=[a-z])-\n(?=[a-z])", "", text)
        for level, heading, body in _split(text, outline.get(number, [])):
            if heading:
                path = [*(entry for entry in path if entry[0] < level), (level, heading)]
                sections.append(Section(heading, [], tuple(name for _, name in path)))
            parts = sections[-1].parts
            assert isinstance(parts, list)  # noqa: S101
            if parts and re.search(r"[a-z]-\Z", parts[-1].text.rstrip("\n")) and re.match(r"[a-z]", body):
                parts[-1] = Part(parts[-1].text.rstrip("\n")[:-1], parts[-1].page)
            elif parts:
                body = "\n" + body
            parts.append(Part(body, number))
    return keep_headings(sections)


def _split(text: str, headings: list[tuple[int, str]]) -> Iterator[tuple[int, str, str]]:
    """A page's text at the lines that are its headings: level, heading, text below."""
    level, above, rest = 0, "", text
    for found, heading in headings:
        words = r"\s+".join(re.escape(word) for word in heading.split())
        match = re.search(rf"(?m)^[^\S\n]*(?:[\dIVXA-Z]+(?:\.\d+)*\.?\s+)?{words}[^\S\n]*$", rest) if words else None
        if match is None:
            continue
        if above or rest[: match.start()].strip():
            yield level, above, rest[: match.start()]
        level, above, rest = found, heading, rest[match.end() :].lstrip("\n")
    yield level, above, rest


def _outline(reader: PdfReader) -> dict[int, list[tuple[int, str]]]:
    """Level and text of the outline's entries by page, from 1; none if it is damaged."""
    found: dict[int, list[tuple[int, str]]] = {}
    count = 0

    def walk(entries: list[Any], level: int) -> None:
        nonlocal count
        for entry in entries:
            if isinstance(entry, list):
                walk(entry, level + 1)
                continue
            count += 1
            page = reader.get_destination_page_number(entry)
            if page is not None and count <= _MOST_HEADINGS:
                heading = " ".join(clean_text(str(entry.title)).split())
                found.setdefault(page + 1, []).append((level, heading))

    try:
        walk(reader.outline, 0)
    except Exception:  # the text does not depend on it
        return {}
    return found


@contextmanager
def _quiet(logger: str) -> Iterator[None]:
    """Suppress a logger's messages about repaired files."""
    log = logging.getLogger(logger)
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


def _without_furniture(pages: list[str]) -> list[str]:
    """Remove running heads and page numbers: lines with which most pages begin or end. Rows of numbers are none."""
    lines = [[line for line in page.split("\n") if line.strip()] for page in pages]
    for end in (0, -1):
        seen = Counter(_masked(page[end]) for page in lines if page and _LETTER_OR_PAGE.search(page[end].strip()))
        for page in lines:
            if len(pages) >= 3 and len(page) > 1 and seen[_masked(page[end])] * 2 > len(pages):
                del page[end]
    return ["\n".join(page) for page in lines]


def _masked(line: str) -> str:
    return re.sub(r"\d+", "#", line.strip())
