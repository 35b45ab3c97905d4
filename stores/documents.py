"""Reads documents (txt, md, html, pdf, csv) as passages, with langchain-community's loaders."""

from __future__ import annotations

import csv
import logging
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from inference.errors import InputError
from stores.cutting import LONG_PASSAGE, MAX_WORDS, cut_sentences, part_ids, shorten_sentences, split_passage
from stores.encodings import clean_text, find_encoding
from stores.markup import Section, markdown_fields, read_html, read_markdown, read_text
from stores.metadata import as_metadata, typed_columns
from stores.passages import Passage
from stores.sentences import split_sentences

if TYPE_CHECKING:
    from langchain_core.documents import Document as Loaded

MAX_BYTES = 100_000_000


def load_documents(path: Path, *, name: str = "", max_words: int = MAX_WORDS) -> list[Passage]:
    """Passages of one document, in order, split at sentence boundaries, with their sentences.

    A passage's `source` is the document's id: `name`, by default the file's name. Its `id` is derived from that and its
    text, so that it does not change with other parts of the document. Its title is the document's (the HTML or PDF
    title, a Markdown file's `title:` or first heading, otherwise the file's name) and the heading above it. No passage
    has more than `max_words` words or crosses a heading, and every sentence is in exactly one passage.

    A Markdown file's header is the metadata of its passages.

    A CSV file is a table of passages. Columns `id`, `title` and `text` (any case) are used as such, and other columns
    are metadata; without `text`, a row becomes `column: value`, one sentence per cell. A row with an `id` is its own
    document. Rows are split only above `LONG_PASSAGE` words.

    Text is UTF-8 (or UTF-16 with a byte order mark, or as declared in HTML); unambiguous Windows-1252 is accepted with
    a warning in the log.

    Raises:
        InputError: The file is missing, empty, of another kind, larger than 100 MB, damaged, encrypted or without text,
            or the extra `documents` is not installed. The message names the file, and the line or page if known.
    """
    name = name or path.name
    suffix = _check(path)
    with _extra(path):
        if suffix == ".csv":
            return _table(path, name, max_words)
        title, sections = _READERS[suffix](path)
    sections = [Section(_line(section.heading), clean_text(section.text)) for section in sections]
    sections = [section for section in sections if section.text.strip()]
    if not sections:
        raise InputError(f"{path}: no text in it", hint="leave it out, or check that it is the right file")
    metadata = as_metadata(markdown_fields(path), str(path)) if suffix in (".md", ".markdown") else {}
    passages = _passages(name, _line(title) or path.stem.replace("_", " "), sections, max_words)
    return [replace(passage, metadata=metadata) for passage in passages]


def _passages(name: str, title: str, sections: list[Section], max_words: int) -> list[Passage]:
    groups = [
        (_full_title(title, section.heading), group)
        for section, sentences in zip(sections, split_sentences([s.text for s in sections]), strict=True)
        for group in cut_sentences(shorten_sentences(sentences, max_words), max_words)
    ]
    texts = [" ".join(group) for _, group in groups]
    return [
        Passage(id=part_id, title=heading, text=text, sentences=tuple(group), source=name)
        for part_id, text, (heading, group) in zip(part_ids(name, texts), texts, groups, strict=True)
    ]


def _full_title(title: str, heading: str) -> str:
    heading = heading if heading != title else ""
    return f"{title}: {heading.removeprefix(f'{title}: ')}" if heading else title


def _check(path: Path) -> str:
    suffix = path.suffix.lower()
    if path.is_dir():
        raise InputError(f"{path}: is a folder", hint="name the files in it, such as folder/*.md")
    if not path.exists():
        raise InputError(f"{path}: no such file", hint="check the path; it is relative to the current folder")
    if suffix not in SUFFIXES:
        known = " ".join(SUFFIXES)
        raise InputError(f"{path}: can't read documents of kind '{suffix}'", hint=f"these can be read: {known}")
    if not path.is_file():
        raise InputError(f"{path}: not a regular file", hint="give a file")
    size = path.stat().st_size
    if size == 0:
        raise InputError(f"{path}: the file is empty", hint="leave it out, or check that it is the right file")
    if size > MAX_BYTES:
        hint = f"split it into files of at most {MAX_BYTES // 1_000_000} MB, or give passages as JSON Lines"
        raise InputError(f"{path}: {size / 1_000_000:.0f} MB is too large for one document", hint=hint)
    return suffix


@contextmanager
def _extra(path: Path) -> Iterator[None]:
    try:
        # The loaders warn on import that their package is no longer developed, which a user can't act on.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    except ImportError as error:
        message = f"{path}: reading documents needs packages that are not installed ({error.name or error})"
        raise InputError(message, hint="pip install 'hopgraph[documents]'") from error
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror or error})", hint="give a readable file") from error


def _plain(path: Path) -> tuple[str, list[Section]]:
    return "", [Section("", read_text(path))]


def _line(text: str) -> str:
    return " ".join(clean_text(text).split())


# PDF


def _pdf(path: Path) -> tuple[str, list[Section]]:
    pages: list[Loaded] = []
    try:
        with _quiet("pypdf"):
            _read_pages(path, pages)
    except (ImportError, InputError):
        raise
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror or error})", hint="give a readable file") from error
    # On a damaged file, the reader may raise any exception.
    except Exception as error:
        kind = type(error).__name__
        if kind in ("FileNotDecryptedError", "WrongPasswordError", "DependencyError"):
            message = f"{path}: protected by a password"
            raise InputError(message, hint="save it without one, for example by printing it to a PDF") from error
        where = f"{path}, page {len(pages) + 1}" if pages else str(path)
        message = f"{where}: damaged, or not a PDF ({kind}: {error})"
        raise InputError(message, hint="open it in a viewer and save it again") from error
    texts = _without_furniture([page.page_content for page in pages])
    if not any(text.strip() for text in texts):
        hint = "it may be scanned images: recognise the text first, for example with ocrmypdf"
        raise InputError(f"{path}: no text on its {len(pages)} page(s)", hint=hint)
    title = str(pages[0].metadata.get("title") or "")
    if re.match(r"untitled|microsoft \w+ - ", title, re.IGNORECASE):
        title = ""
    # Join words hyphenated at line ends; sentences may continue on the next page.
    return title, [Section("", re.sub(r"(?<=[a-z])-\n(?=[a-z])", "", "\n".join(texts)))]


def _read_pages(path: Path, pages: list[Loaded]) -> None:
    from langchain_community.document_loaders.pdf import PyPDFLoader

    for page in PyPDFLoader(path).lazy_load():
        pages.append(page)


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
    """Remove running heads and page numbers: lines with which most pages begin or end."""
    lines = [[line for line in page.split("\n") if line.strip()] for page in pages]
    for end in (0, -1):
        seen = Counter(_masked(page[end]) for page in lines if page)
        for page in lines:
            if len(pages) >= 3 and len(page) > 1 and seen[_masked(page[end])] * 2 > len(pages):
                del page[end]
    return ["\n".join(page) for page in lines]


def _masked(line: str) -> str:
    return re.sub(r"\d+", "#", line.strip())


_READERS: dict[str, Callable[[Path], tuple[str, list[Section]]]] = {
    ".txt": _plain,
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".html": read_html,
    ".htm": read_html,
    ".pdf": _pdf,
}
SUFFIXES = (*_READERS, ".csv")


# CSV


def _table(path: Path, name: str, max_words: int) -> list[Passage]:
    from langchain_community.document_loaders.csv_loader import CSVLoader

    encoding = find_encoding(path)
    header, options = _check_table(path, encoding)
    known = {column.strip().lower(): column for column in header}
    loader = CSVLoader(path, encoding=encoding, metadata_columns=header, csv_args=options)
    rows = [{column: str(row.metadata[column]) for column in header} for row in loader.lazy_load()]
    rows = [row for row in rows if any(cell.strip() for cell in row.values())]
    if not rows:
        raise InputError(f"{path}: a header and no rows", hint="the first line names the columns, the others are data")

    titles = [_line(row.get(known.get("title", ""), "")) or path.stem.replace("_", " ") for row in rows]
    if "text" in known:
        texts = [clean_text(row[known["text"]]).strip() for row in rows]
        sentences = split_sentences(texts)
    else:
        cells = [_cells(row, (known.get("id"), known.get("title"))) for row in rows]
        texts = ["\n".join(row) for row in cells]
        sentences = cells
    ids = [_line(row.get(known.get("id", ""), "")) for row in rows]
    derived = part_ids(name, [f"{title}\x1f{text}" for title, text in zip(titles, texts, strict=True)])
    own_columns = {known.get(name) for name in ("id", "title", "text")}
    metadata = typed_columns(rows, [column for column in header if column not in own_columns and column.strip()])
    passages = [
        Passage(
            own or other, title, text, tuple(shorten_sentences(split, max_words)), "" if own else name, metadata=fields
        )
        for own, other, title, text, split, fields in zip(ids, derived, titles, texts, sentences, metadata, strict=True)
    ]
    longest = max(LONG_PASSAGE, max_words)
    return [part for passage in passages for part in split_passage(passage, max_words=max_words, longer_than=longest)]


def _cells(row: dict[str, str], left_out: tuple[str | None, ...]) -> list[str]:
    cells = [(_line(column), _line(value)) for column, value in row.items() if column not in left_out]
    return [f"{column}: {value}" if column else value for column, value in cells if value]


def _check_table(path: Path, encoding: str) -> tuple[list[str], dict[str, str | bool]]:
    """Header and dialect, after validating every row: the loader itself accepts ragged rows."""
    csv.field_size_limit(MAX_BYTES)
    with path.open(newline="", encoding=encoding) as file:
        first = file.readline()
        delimiter = max(",;\t|", key=lambda mark: len(next(csv.reader([first], delimiter=mark), [])))
        options: dict[str, str | bool] = {"delimiter": delimiter, "strict": True}
        file.seek(0)
        rows = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            header = next(rows, [])
            _check_header(path, header)
            for row in rows:
                if row and len(row) != len(header):
                    message = f"{path}, line {rows.line_num}: {len(row)} cells, but the header has {len(header)}"
                    raise InputError(message, hint=f"put quotes around cells that hold the delimiter {delimiter!r}")
        except csv.Error as error:
            message = f"{path}, line {rows.line_num}: not CSV ({error})"
            raise InputError(message, hint='a cell with quotes in it is written "like ""this"""') from None
    return header, options


def _check_header(path: Path, header: list[str]) -> None:
    names = [column.strip().lower() for column in header]
    if not any(names):
        raise InputError(f"{path}, line 1: no column names", hint="the first line names the columns")
    if twice := next((column for column in names if names.count(column) > 1), None):
        raise InputError(f"{path}, line 1: column '{twice}' is there twice", hint="rename one of them")
