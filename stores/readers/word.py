"""Word (docx), with python-docx."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from stores.readers.office import opened
from stores.readers.sections import Parsed, Part, Section, keep_headings, table_rows

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
"""A second form of a drawing, with the same text."""
_CONTAINERS = {f"{_W}{name}" for name in ("sdt", "sdtContent", "ins", "moveTo", "customXml", "smartTag")}
_NOTES = {"footnotes": "Footnotes", "endnotes": "Endnotes", "comments": "Comments"}
_TITLE = 0
"""Level of a paragraph in the style `Title`; headings have 1 to 9."""


def read_docx(path: Path) -> Parsed:
    """A Word file: text, tables, text boxes, notes and comments; not headers, footers and deleted text.

    Pages are those of Word's last layout or, without one, those between explicit breaks.

    Raises:
        InputError: It is damaged, encrypted or a bomb.
    """
    with opened(path):
        import docx
        from docx.oxml.parser import parse_xml

        document = docx.Document(str(path))
        body = document.element.body
        laid_out = next(body.iter(f"{_W}lastRenderedPageBreak"), None) is not None
        text = _Text(_levels(document.styles), laid_out)
        text.read(body)
        for relation in document.part.rels.values():
            kind = relation.reltype.rsplit("/", 1)[-1]
            if kind in _NOTES and not relation.is_external:
                text.read_notes(_NOTES[kind], parse_xml(relation.target_part.blob))
        title = text.title or str(document.core_properties.title or "")
        return Parsed(title, keep_headings(text.sections()))


def _levels(styles: Any) -> dict[str, int]:
    """Level by id of the paragraph style."""
    found: dict[str, int] = {}
    for style in styles:
        name = str(style.name or "").lower()
        if name == "title":
            found[style.style_id] = _TITLE
        elif name.startswith("heading ") and name[8:].isdecimal():
            found[style.style_id] = int(name[8:])
    return found


class _Text:
    """Walks a document's elements: python-docx's objects leave out content controls, insertions and text boxes."""

    def __init__(self, levels: dict[str, int], laid_out: bool) -> None:
        self._levels = levels
        self._laid_out = laid_out
        self._page = 1
        self._path: list[tuple[int, str]] = []
        self._sections: list[Section] = []
        self._parts: list[Part] = []
        self.title = ""
        self._begin("")

    def sections(self) -> list[Section]:
        """The sections; without pages if nothing says where they end."""
        if self._page > 1 or self._laid_out:
            return self._sections
        return [
            Section(one.heading, [Part(part.text, row=part.row) for part in one.parts], one.headings)
            for one in self._sections
        ]

    def read(self, parent: Any) -> None:
        """Read the paragraphs and tables below an element."""
        for element in parent:
            if element.tag == f"{_W}p":
                self._paragraph(element)
            elif element.tag == f"{_W}tbl":
                self._table(element)
            elif element.tag in _CONTAINERS:
                self.read(element)

    def read_notes(self, heading: str, part: Any) -> None:
        """Read a part of notes as a section; their pages are not known."""
        self._path = [(1, heading)]
        self._begin(heading)
        page, self._page = self._page, 0
        for note in part:
            if note.get(f"{_W}type") is None:  # others are lines between text and notes
                self.read(note)
        self._page = page

    def _begin(self, heading: str) -> None:
        self._parts = []
        self._sections.append(Section(heading, self._parts, tuple(name for _, name in self._path)))

    def _paragraph(self, element: Any) -> None:
        level = self._level(element)
        parts, boxes = self._pieces(element)
        text = " ".join("".join(part.text for part in parts).split())
        if level == _TITLE and text and not self.title:
            self.title = text
        elif level is not None and text:
            self._path = [*(entry for entry in self._path if entry[0] < level), (level, text)]
            self._begin(text)
            self._parts.append(Part("", parts[-1].page))
        else:
            self._parts += [*parts, Part("\n\n", self._page)]
        for box in boxes:
            self.read(box)

    def _level(self, paragraph: Any) -> int | None:
        properties = paragraph.find(f"{_W}pPr")
        if properties is None:
            return None
        style, outline = properties.find(f"{_W}pStyle"), properties.find(f"{_W}outlineLvl")
        if style is not None and (level := self._levels.get(style.get(f"{_W}val"))) is not None:
            return level
        value = outline.get(f"{_W}val") if outline is not None else ""
        return int(value) + 1 if value.isdecimal() and int(value) < 9 else None

    def _pieces(self, paragraph: Any) -> tuple[list[Part], list[Any]]:
        """A paragraph's text by page, and its text boxes."""
        parts: list[Part] = []
        boxes: list[Any] = []
        properties = paragraph.find(f"{_W}pPr")
        if properties is not None and properties.find(f"{_W}pageBreakBefore") is not None:
            self._break(rendered=False)
        words: list[str] = []
        for element in _leaves(paragraph, boxes):
            kind = element.tag.removeprefix(_W)
            page = self._page
            if kind == "lastRenderedPageBreak":
                self._break(rendered=True)
            elif kind == "br" and element.get(f"{_W}type") == "page":
                self._break(rendered=False)
            if self._page != page:
                parts.append(Part("".join(words), page))
                words = []
            words.append(_CHARACTERS.get(kind, "") if kind != "t" else element.text or "")
        return [*parts, Part("".join(words), self._page)], boxes

    def _break(self, *, rendered: bool) -> None:
        """Count a page break. Word also marks the explicit ones where it has laid out the document."""
        if self._page and rendered == self._laid_out:
            self._page += 1

    def _table(self, table: Any) -> None:
        rows: list[list[str]] = []
        pages: list[int] = []
        for row in _rows(table):
            cells: list[str] = []
            for cell in row.iter(f"{_W}tc"):
                if next(cell.iterancestors(f"{_W}tr")) is not row:
                    continue  # of a table within a cell, whose text is the cell's
                width, goes_on = _spans(cell)
                text = self._cell(cell)
                if goes_on and rows and len(cells) < len(rows[-1]):
                    text = rows[-1][len(cells)]
                cells += [text] * width
            rows.append(cells)
            pages.append(self._page)
        header = _header_rows(table, rows)
        texts = [table_rows([*rows[:header], row], header) for row in rows[header:]] or [table_rows(rows, header)]
        for lines, page in zip(texts, pages[header:] or pages, strict=False):
            self._parts += [Part(line, page, row=True) for line in lines]

    def _cell(self, cell: Any) -> str:
        texts = []
        for paragraph in cell.iter(f"{_W}p"):
            if next(paragraph.iterancestors(_FALLBACK), None) is not None:
                continue
            parts, _ = self._pieces(paragraph)
            texts.append("".join(part.text for part in parts))
        return " ".join(texts)


_CHARACTERS = {"tab": " ", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}


def _leaves(element: Any, boxes: list[Any]) -> Iterator[Any]:
    """Text, breaks and tabs of a paragraph; its text boxes are put into `boxes`."""
    for child in element:
        if child.tag == f"{_W}txbxContent":
            boxes.append(child)
        elif child.tag not in (_FALLBACK, f"{_W}pPr", f"{_W}del", f"{_W}moveFrom", f"{_W}p"):
            if isinstance(child.tag, str) and child.tag.startswith(_W):
                yield child
            yield from _leaves(child, boxes)


def _rows(element: Any) -> Iterator[Any]:
    for child in element:
        if child.tag == f"{_W}tr":
            yield child
        elif child.tag in _CONTAINERS:
            yield from _rows(child)


def _spans(cell: Any) -> tuple[int, bool]:
    """Columns of a cell, and whether it goes on from the row above."""
    properties = cell.find(f"{_W}tcPr")
    if properties is None:
        return 1, False
    span, merge = properties.find(f"{_W}gridSpan"), properties.find(f"{_W}vMerge")
    value = str(span.get(f"{_W}val")) if span is not None else "1"
    width = min(int(value), 100) if value.isdecimal() else 1
    return max(width, 1), merge is not None and merge.get(f"{_W}val", "continue") == "continue"


def _header_rows(table: Any, rows: Sequence[Sequence[str]]) -> int:
    """Rows marked as header; else the first, unless the table's style says that it has none."""
    if len(rows) < 2 or max(map(len, rows)) < 2:
        return 0
    marked = 0
    for row in _rows(table):
        if row.find(f"{_W}trPr/{_W}tblHeader") is None:
            break
        marked += 1
    if marked:
        return min(marked, len(rows) - 1)
    look = table.find(f"{_W}tblPr/{_W}tblLook")
    if look is None:
        return 1
    first = look.get(f"{_W}firstRow") or str(int(look.get(f"{_W}val", "20"), 16) >> 5 & 1)
    return int(first in ("1", "true", "on"))
