"""HTML and Markdown as titled sections of plain text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stores.metadata import as_metadata
from stores.readers.encodings import clean_text, find_encoding
from stores.readers.sections import Parsed, Part, Section, table_rows

if TYPE_CHECKING:
    from bs4 import BeautifulSoup
    from bs4.builder import HTMLTreeBuilder
    from bs4.element import NavigableString, Tag

_HEADING = "\x1e"
"""Marks headings in text extracted from HTML; a control character, which no document's text contains."""
_ROW = "\x1d"
"""Marks table rows, in the same way."""
_ARRANGED = ["table", "h1", "h2", "h3", "h4", "h5", "h6"]
"""In a cell, a sign that the table arranges a page."""
_CELLS = ["td", "th"]
_WIDEST = 100
"""Columns or rows that a cell may span."""
_DROPPED_TAGS = ["script", "style", "template", "noscript", "svg", "nav", "iframe", "button", "select"]
# fmt: off
_BLOCK_TAGS = [
    "address", "article", "aside", "blockquote", "body", "caption", "dd", "details", "div", "dl", "dt", "fieldset",
    "figcaption", "figure", "footer", "form", "header", "hr", "li", "main", "ol", "p", "pre", "section", "summary",
    "table", "tbody", "tfoot", "thead", "tr", "ul",
]
# fmt: on


def read_markdown(path: Path) -> Parsed:
    """A Markdown file. Its title is the header's `title:`, or else the first `#` heading; metadata are the others."""
    import yaml
    from bs4 import BeautifulSoup
    from markdown_it import MarkdownIt

    text, title, metadata = path.read_text(find_encoding(path)), "", {}
    if header := re.match(r"---[^\S\n]*\n(.*?\n)(?:---|\.\.\.)[^\S\n]*(?:\n|\Z)", text, re.DOTALL):
        try:
            fields = yaml.safe_load(header[1])
        except (yaml.YAMLError, ValueError):
            fields = None
        if isinstance(fields, dict):
            title, text = str(fields.pop("title", "") or ""), text[header.end() :]
            metadata = as_metadata(fields, str(path))
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    soup = BeautifulSoup(rendered, builder=_builder())
    return Parsed(title or _title(soup), _sections(soup.get_text()), metadata)


def read_html(path: Path) -> Parsed:
    """An HTML file, without scripts, navigation and buttons."""
    return parse_html(path.read_text(find_encoding(path)))


def parse_html(text: str) -> Parsed:
    """An HTML page."""
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(text, builder=_builder())
    return Parsed(_title(soup), _sections(soup.get_text()))


def _title(soup: BeautifulSoup) -> str:
    return str(soup.title.string or "") if soup.title else ""


def _sections(text: str) -> list[Section]:
    """Split text by headings. Consecutive headings are joined; a final one without text becomes text."""
    sections: list[Section] = []
    headings: list[str] = []
    path: list[tuple[int, str]] = []
    for part in re.split(rf"(?m)^(?={_HEADING})", text):
        line, _, body = part.partition("\n") if part.startswith(_HEADING) else ("", "", part)
        if line:
            level, heading = int(line[1]), clean_text(line[2:])
            headings.append(heading)
            path = [*(entry for entry in path if entry[0] < level), (level, heading)]
        if body.strip():
            sections.append(Section(": ".join(headings), _parts(body), tuple(name for _, name in path if name)))
            headings = []
    if headings:
        sections.append(Section("", [Part("\n\n".join(headings))]))
    return sections


def _parts(body: str) -> list[Part]:
    """Text and table rows in order."""
    pieces = re.split(rf"\n*{_ROW}([^\n]*)\n*", body)
    parts = [Part(piece, row=bool(number % 2)) for number, piece in enumerate(pieces)]
    return [part for part in parts if part.text.strip()]


def _builder() -> HTMLTreeBuilder:
    """A tree builder whose text has blank lines between blocks and marked headings, and no title."""
    from bs4.builder._htmlparser import BeautifulSoupHTMLParser, HTMLParserTreeBuilder
    from bs4.element import NavigableString

    class Title(NavigableString):
        """A string type that `get_text` ignores."""

    class Builder(HTMLParserTreeBuilder):
        """Post-processes the complete tree."""

        def feed(
            self, markup: str | bytes, _parser_class: type[BeautifulSoupHTMLParser] = BeautifulSoupHTMLParser
        ) -> None:
            if isinstance(markup, str):
                markup = markup.replace(_HEADING, "").replace(_ROW, "")
            super().feed(markup, _parser_class)
            if self.soup is not None:
                self.soup.endData()
                _arrange(self.soup, Title)

    return Builder(string_containers={**HTMLParserTreeBuilder.DEFAULT_STRING_CONTAINERS, "title": Title})


def _arrange(soup: BeautifulSoup, title_type: type[NavigableString]) -> None:
    from bs4.element import NavigableString

    for tag in soup(_DROPPED_TAGS) + soup(role="navigation"):
        tag.decompose()
    for string in soup(string=True):
        if type(string) is NavigableString:
            # A character reference may stand for one of the marks, which are white space, too.
            spaces = rf"[{_HEADING}{_ROW}]" if string.find_parent("pre") else r"\s+"
            string.replace_with(re.sub(spaces, " ", string))
    for tag in soup("br"):
        tag.replace_with("\n")
    for table in reversed(soup("table")):  # inner ones first
        _write_rows(table)
    for tag in soup(_BLOCK_TAGS):
        tag.insert_before("\n\n")
        tag.append("\n\n")
    if soup.title and not (soup.title.string or "").strip():
        soup.title.decompose()
    headings = soup(["h1", "h2", "h3", "h4", "h5", "h6"])
    if not soup.title and (first := next((tag for tag in headings if tag.name == "h1"), None)):
        title = soup.new_tag("title")
        title.append(title_type(" ".join(first.get_text().split())))
        soup.insert(0, title)
    for tag in headings:
        heading = " ".join(tag.get_text().split()).removesuffix("¶")  # the permalink sign
        tag.replace_with(f"\n\n{_HEADING}{tag.name[1]}{heading}\n\n")


def _write_rows(table: Tag) -> None:
    """Replace a table's rows by text: each cell with its column's name. A table that arranges a page stays text."""
    rows = [row for row in table("tr") if row.find_parent("table") is table]
    # Cells and rows that are not closed are within those before them.
    cells = [[cell for cell in row(_CELLS) if cell.find_parent("tr") is row] for row in rows]
    if any(cell.find(_ARRANGED) for row in cells for cell in row):
        for cell in (cell for row in cells for cell in row):
            cell.insert_before("\n\n")
        return
    for block in table(_BLOCK_TAGS):
        block.insert_before(" ")
        block.append(" ")
    header = next((i for i, row in enumerate(cells) if not _is_header(row)), len(cells))
    grid = _grid(cells)
    texts = table_rows(grid, header) if header else [_unnamed(*row) for row in zip(cells, grid, strict=True)]
    for row in rows:
        row.decompose()
    table.append("".join(f"\n\n{_ROW}{text}\n\n" for text in texts if text))


def _is_header(row: Sequence[Tag]) -> bool:
    return len(row) > 1 and all(cell.name == "th" for cell in row)


def _unnamed(cells: Sequence[Tag], texts: Sequence[str]) -> str:
    """A row of a table without column names; one that begins with its own name reads `Born: 1815`."""
    names_itself = len(cells) > 1 and cells[0].name == "th" and all(cell.name == "td" for cell in cells[1:])
    [text] = table_rows([texts[1:] if names_itself else texts], 0) or [""]
    return f"{texts[0].rstrip(':')}: {text}" if names_itself and texts[0] and text else text


def _grid(cells: Sequence[Sequence[Tag]]) -> list[list[str]]:
    """The text of each row's columns; a cell over several rows or columns is in each of them."""
    grid: list[list[str]] = []
    above: dict[int, tuple[int, str]] = {}
    for row in cells:
        texts: list[str] = []
        left = list(row)
        while left or len(texts) in above:
            rows, text = above.pop(len(texts), (0, ""))
            if rows:
                spans = [(rows, text)]
            else:
                cell = left.pop(0)
                spans = [(_span(cell, "rowspan"), _cell_text(cell))] * _span(cell, "colspan")
            for lasts, text in spans:
                if lasts > 1:
                    above[len(texts)] = (lasts - 1, text)
                texts.append(text)
        grid.append(texts)
    return grid


def _cell_text(cell: Tag) -> str:
    from bs4.element import NavigableString

    texts = [text for text in cell(string=True) if type(text) is NavigableString and text.find_parent(_CELLS) is cell]
    return " ".join("".join(texts).split())


def _span(cell: Tag, name: str) -> int:
    value = str(cell.get(name, ""))
    return min(max(int(value), 1), _WIDEST) if value.isascii() and value.isdecimal() else 1
