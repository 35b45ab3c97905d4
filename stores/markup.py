"""HTML and Markdown as titled sections of plain text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stores.encodings import find_encoding

if TYPE_CHECKING:
    from bs4 import BeautifulSoup
    from bs4.builder import HTMLTreeBuilder
    from bs4.element import NavigableString

_HEADING = "\x1e"
"""Marks headings in text extracted from HTML; a control character, which no document's text contains."""
_DROPPED_TAGS = ["script", "style", "template", "noscript", "svg", "nav", "iframe", "button", "select"]
# fmt: off
_BLOCK_TAGS = [
    "address", "article", "aside", "blockquote", "body", "caption", "dd", "details", "div", "dl", "dt", "fieldset",
    "figcaption", "figure", "footer", "form", "header", "hr", "li", "main", "ol", "p", "pre", "section", "summary",
    "table", "tbody", "tfoot", "thead", "tr", "ul",
]
# fmt: on


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a document: `text`, with blank lines between paragraphs, and the heading above it ("": none)."""

    heading: str
    text: str


def read_text(path: Path) -> str:
    """Read a text file, with its encoding detected."""
    from langchain_community.document_loaders.text import TextLoader

    return TextLoader(path, encoding=find_encoding(path)).load()[0].page_content


def read_markdown(path: Path) -> tuple[str, list[Section]]:
    """Title ("" if it has none) and sections. The title is the header's `title:`, or else the first `#` heading."""
    from bs4 import BeautifulSoup
    from markdown_it import MarkdownIt

    fields, text = _header(read_text(path))
    title = str(fields.get("title") or "")
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    soup = BeautifulSoup(rendered, builder=_builder())
    return title or (str(soup.title.string) if soup.title else ""), _sections(soup.get_text())


def markdown_fields(path: Path) -> dict[Any, Any]:
    """The fields of a Markdown file's header, but its title; {} without one."""
    return {name: value for name, value in _header(read_text(path))[0].items() if name != "title"}


def _header(text: str) -> tuple[dict[Any, Any], str]:
    """The fields of a YAML header between lines of `---`, and the text after it."""
    import yaml

    header = re.match(r"---[^\S\n]*\n(.*?\n)(?:---|\.\.\.)[^\S\n]*(?:\n|\Z)", text, re.DOTALL)
    try:
        fields = yaml.safe_load(header[1]) if header else None
    except (yaml.YAMLError, ValueError, RecursionError):
        fields = None
    return (fields, text[header.end() :]) if header and isinstance(fields, dict) else ({}, text)


def read_html(path: Path) -> tuple[str, list[Section]]:
    """Title ("" if it has none) and sections of the page, without scripts, navigation and buttons."""
    from langchain_community.document_loaders.html_bs import BSHTMLLoader

    [loaded] = BSHTMLLoader(path, open_encoding=find_encoding(path), bs_kwargs={"builder": _builder()}).load()
    return str(loaded.metadata.get("title") or ""), _sections(loaded.page_content)


def _sections(text: str) -> list[Section]:
    """Split text by headings. Consecutive headings are joined; a final one without text becomes text."""
    sections: list[Section] = []
    headings: list[str] = []
    for part in re.split(rf"(?m)^(?={_HEADING})", text):
        heading, _, body = part.partition("\n") if part.startswith(_HEADING) else ("", "", part)
        if heading:
            headings.append(heading.removeprefix(_HEADING))
        if body.strip():
            sections.append(Section(": ".join(headings), body))
            headings = []
    if headings:
        sections.append(Section("", "\n\n".join(headings)))
    return sections


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
            super().feed(markup.replace(_HEADING, "") if isinstance(markup, str) else markup, _parser_class)
            if self.soup is not None:
                self.soup.endData()
                _arrange(self.soup, Title)

    return Builder(string_containers={**HTMLParserTreeBuilder.DEFAULT_STRING_CONTAINERS, "title": Title})


def _arrange(soup: BeautifulSoup, title_type: type[NavigableString]) -> None:
    from bs4.element import NavigableString

    for tag in soup(_DROPPED_TAGS) + soup(role="navigation"):
        tag.decompose()
    for string in soup(string=True):
        if type(string) is NavigableString and not string.find_parent("pre"):
            string.replace_with(re.sub(r"\s+", " ", string))
    for tag in soup("br"):
        tag.replace_with("\n")
    for tag in soup(["td", "th"]):
        if tag.find_previous_sibling(["td", "th"]) and tag.get_text(strip=True):
            tag.insert_before(" | ")
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
        tag.replace_with(f"\n\n{_HEADING}{heading}\n\n")
