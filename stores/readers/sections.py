"""What a reader makes of a document: sections of text and table rows, with their headings and pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from stores.metadata import Metadata


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a section's text on one page, with the white space around it; or a row of a table."""

    text: str
    page: int = 0
    """Number of its page, slide or row, from 1; 0: unknown."""
    row: bool = False
    """A table row: one sentence of its own."""


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a document."""

    heading: str
    """The heading above it, for the titles of its passages; "" if none."""
    parts: Sequence[Part]
    headings: tuple[str, ...] = ()
    """The path of headings to it, outermost first."""
    unit: str = "page"
    """What `Part.page` counts."""
    metadata: Metadata = field(default_factory=dict)
    """Fields of its passages, besides those of the document."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A document."""

    title: str
    """"" if it has none."""
    sections: Iterable[Section]
    metadata: Metadata = field(default_factory=dict)
    """Fields that it says about itself."""


def plain_section(text: str) -> Section:
    """A section of text alone."""
    return Section("", (Part(text),))


def keep_headings(sections: Sequence[Section]) -> list[Section]:
    """The sections with text. A heading without any, and without a heading below it, becomes text: nothing is lost."""
    kept: list[Section] = []
    for number, section in enumerate(sections):
        below = sections[number + 1].headings if number + 1 < len(sections) else ()
        if any(part.text.strip() for part in section.parts):
            kept.append(section)
        elif section.heading and below[: len(section.headings)] != section.headings:
            page = section.parts[0].page if section.parts else 0
            kept.append(Section("", (Part(section.heading, page),), section.headings[:-1], section.unit))
    return kept


def page_label(unit: str, pages: Sequence[int]) -> str:
    """Where a passage is, such as `page 3`, `pages 3-4` or `sheet Costs, rows 2-9`; "" if unknown."""
    known = [page for page in pages if page]
    if not known:
        return ""
    first, last = min(known), max(known)
    return f"{unit} {first}" if first == last else f"{unit}s {first}-{last}"


def table_rows(rows: Sequence[Sequence[str]], header: int) -> list[str]:
    """Rows of a table as text, each with its column names: `Name: Ann; Year: 1999`.

    A row whose filled cells are all alike (a cell over all columns) is written once. A header without rows is written
    as it is.

    Args:
        rows: The cells; one over several columns or rows is in each of them.
        header: How many rows at the top are column names; 0 writes `Ann | 1999`.
    """
    names = _names(rows[:header])
    written = [_row_text(names, row) for row in rows[header:]] if header < len(rows) else []
    return [row for row in written if row] or ([" | ".join(filter(None, names))] if any(names) else [])


def _names(rows: Sequence[Sequence[str]]) -> list[str]:
    """Column names; those of several header rows are joined."""
    width = max(map(len, rows), default=0)
    columns = [[" ".join(row[i].split()) for row in rows if i < len(row)] for i in range(width)]
    return [" ".join(dict.fromkeys(filter(None, column))) for column in columns]


def _row_text(names: Sequence[str], cells: Sequence[str]) -> str:
    texts = [" ".join(cell.split()) for cell in cells]
    filled = [text for text in texts if text]
    if len(filled) > 1 and len(set(filled)) == 1 and len(filled) == len(texts):
        return filled[0]
    if not names:
        return " | ".join(filled)
    named = [(names[i].rstrip(":") if i < len(names) else "", text) for i, text in enumerate(texts) if text]
    return "; ".join(f"{name}: {text}" if name and name != text else text for name, text in named)
