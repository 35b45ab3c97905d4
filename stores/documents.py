"""Reads documents (text, Markdown, HTML, PDF, Office files, EPUB, tables) as passages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from typing import NamedTuple

from inference.errors import InputError
from stores.cutting import MAX_WORDS, PartIds, cut_sentences, shorten_sentences
from stores.passages import Passage
from stores.readers.encodings import OLE, clean_text, kind_of
from stores.readers.sections import Parsed, Part, Section, page_label
from stores.sentences import split_sentences
from stores.tables import line, read_table

MAX_BYTES = 100_000_000
"""Of a file that is read as a whole: all but text and tables."""
_TABLES = (".csv", ".tsv")
_STREAMED = (".txt", *_TABLES)
_MODULES = {
    ".txt": "text.read_text",
    ".md": "markup.read_markdown",
    ".markdown": "markup.read_markdown",
    ".html": "markup.read_html",
    ".htm": "markup.read_html",
    ".xhtml": "markup.read_html",
    ".pdf": "pdf.read_pdf",
    ".docx": "word.read_docx",
    ".pptx": "slides.read_pptx",
    ".xlsx": "sheets.read_xlsx",
    ".epub": "epub.read_epub",
}
SUFFIXES = (*_MODULES, *_TABLES)
_BINARY = {".pdf": "a PDF", **dict.fromkeys((".docx", ".pptx", ".xlsx"), "an Office file"), ".epub": "an EPUB"}

Parse = Callable[[Path], Parsed]


def load_documents(path: Path, *, name: str = "", max_words: int = MAX_WORDS) -> list[Passage]:
    """Passages of one document, in order, split at sentence boundaries, with their sentences.

    A passage's `source` is the document's id: `name`, by default the file's name. Its `id` is derived from that and its
    text, so that it does not change with other parts of the document. Its title is the document's (its own title, a
    Markdown file's `title:` or first heading, otherwise the file's name) and the heading above it; `headings` is the
    whole path of headings, and `page` says where it is (`pages 3-4`, `slide 2`, `sheet Costs, row 7`). No passage has
    more than `max_words` words or crosses a heading, and every sentence is in exactly one passage. A row of a table is
    one sentence and one line, with its column names; a row of a spreadsheet is a passage.

    The fields of a Markdown file's header are the metadata of its passages, the cells of a spreadsheet's row those of
    the row.

    A CSV file is a table of passages. Columns `id`, `title` and `text` (any case) are used as such, and other columns
    are metadata; without `text`, a row becomes `column: value`, one sentence per cell. A row with an `id` is its own
    document. Rows are split only above `LONG_PASSAGE` words.

    Text is UTF-8 (or UTF-16 with a byte order mark, or as declared in HTML); other encodings are accepted with a
    warning in the log where they are recognised.

    Raises:
        InputError: The file is missing, empty, of another kind, larger than 100 MB (text and tables may be), damaged,
            encrypted or without text, or the extra `documents` is not installed. The message names the file, and the
            line or page if known.
    """
    return list(read_document(path, name=name, max_words=max_words))


def read_document(
    path: Path, *, name: str = "", max_words: int = MAX_WORDS, parse: Parse | None = None
) -> Iterator[Passage]:
    """As `load_documents`, one passage at a time. Errors are raised before the first one.

    Args:
        path: The document.
        name: Its id; default: its file's name.
        max_words: The most words of a passage.
        parse: Reads the files that are read as a whole, not text and tables; default: `parse_document`.
    """
    name = name or path.name
    suffix = check_document(path)
    with _readable(path):
        if suffix in _TABLES:
            yield from read_table(path, name, max_words)
            return
        parsed = (parse_document if parse is None or suffix in _STREAMED else parse)(path)
        passages = _passages(path, name, parsed, max_words)
        first = next(passages, None)
        if first is None:
            raise InputError(f"{path}: no text in it", hint="leave it out, or check that it is the right file")
        yield first
        yield from passages


def parse_document(path: Path) -> Parsed:
    """Title and sections of a file that is no table.

    Raises:
        InputError: As for `load_documents`.
    """
    from importlib import import_module

    module, _, function = _MODULES[check_document(path)].partition(".")
    with _readable(path):
        read: Parse = getattr(import_module(f"stores.readers.{module}"), function)
        return read(path)


def _passages(path: Path, name: str, parsed: Parsed, max_words: int) -> Iterator[Passage]:
    title = line(parsed.title) or path.stem.replace("_", " ")
    part_ids = PartIds(name)
    for section in parsed.sections:
        heading = _full_title(title, line(section.heading))
        headings = tuple(filter(None, map(line, section.headings)))
        metadata = {**parsed.metadata, **section.metadata}
        found = [
            one._replace(text=piece)
            for one in _sentences(section)
            for piece in shorten_sentences([one.text], max_words)
        ]
        groups = cut_sentences([one.text for one in found], max_words) if found else []
        ends = list(accumulate(map(len, groups)))
        for group, end in zip(groups, ends, strict=True):
            these = found[end - len(group) : end]
            text = _joined(these)
            place = page_label(section.unit, [page for one in these for page in one.pages])
            own = part_ids.of(text)
            yield Passage(own, heading, text, tuple(group), name, page=place, headings=headings, metadata=metadata)


class _Sentence(NamedTuple):
    text: str
    pages: Sequence[int]
    row: bool = False


def _joined(sentences: Sequence[_Sentence]) -> str:
    """The text of sentences; table rows are lines of their own."""
    text = sentences[0].text
    for before, after in pairwise(sentences):
        text += ("\n" if before.row or after.row else " ") + after.text
    return text


def _sentences(section: Section) -> Iterator[_Sentence]:
    """Sentences of a section with their pages. A table row is one sentence."""
    for is_row, parts in groupby(section.parts, key=lambda part: part.row):
        cleaned = [Part(clean_text(part.text), part.page) for part in parts]
        if is_row:
            rows = (part for part in cleaned if part.text.strip())
            yield from (_Sentence(" ".join(part.text.split()), (part.page,), row=True) for part in rows)
            continue
        [sentences] = split_sentences(["".join(part.text for part in cleaned)])
        # Sentences are the text up to white space: the other characters are counted.
        ends = list(accumulate(_length(part.text) for part in cleaned))
        done = number = 0
        for sentence in sentences:
            while number < len(ends) - 1 and ends[number] <= done:
                number += 1
            done += _length(sentence)
            last = number
            while last < len(ends) - 1 and ends[last] < done:
                last += 1
            yield _Sentence(sentence, (cleaned[number].page, cleaned[last].page))


def _length(text: str) -> int:
    """Characters without white space."""
    return sum(map(len, text.split()))


def _full_title(title: str, heading: str) -> str:
    heading = heading if heading != title else ""
    return f"{title}: {heading.removeprefix(f'{title}: ')}" if heading else title


def check_document(path: Path) -> str:
    """The suffix of a file that can be read.

    Raises:
        InputError: It is missing, empty, of another kind, too large, or its content does not fit its suffix.
    """
    suffix = path.suffix.lower()
    with _readable(path):
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
    if size > MAX_BYTES and suffix not in _STREAMED:
        hint = f"split it into files of at most {MAX_BYTES // 1_000_000} MB, or give it as text or JSON Lines"
        raise InputError(f"{path}: {size / 1_000_000:.0f} MB is too large for one document", hint=hint)
    if suffix in _BINARY:
        _check_kind(path, suffix)
    return suffix


def _check_kind(path: Path, suffix: str) -> None:
    """Check that a binary file begins as its suffix says."""
    with _readable(path), path.open("rb") as file:
        head = file.read(1024)
    marks = (b"%PDF-",) if suffix == ".pdf" else (b"PK\x03\x04", OLE)
    # Something may stand before a PDF.
    if (marks[0] not in head) if suffix == ".pdf" else not head.startswith(marks):
        found = kind_of(head) or "text"
        message = f"{path}: damaged, or not {_BINARY[suffix]}: it begins like {found}"
        raise InputError(message, hint="give the file its real suffix, or save it again")


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        message = f"{path}: reading documents needs packages that are not installed ({error.name or error})"
        raise InputError(message, hint="pip install 'hopgraph[documents]'") from error
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror or error})", hint="give a readable file") from error
    except UnicodeDecodeError as error:  # its encoding was checked before
        raise InputError(f"{path}: changed while it was read", hint="run the command again") from error
