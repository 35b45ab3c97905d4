"""Untrusted text as shown by all views: one line each, without control characters, cut to a length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nodes.kit.rendering import plain

if TYPE_CHECKING:
    from stores.passages import Passage


def title_of(key: str, passages: Mapping[str, Passage | None]) -> str:
    """A passage's title, or else its id, and the page if it has one: `Annual report (page 3)`."""
    passage = passages.get(key)
    if passage is None:
        return key
    name = plain(passage.title) or key
    return f"{name} ({plain(passage.page)})" if passage.page else name


def place_of(passage: Passage) -> str:
    """Page and path of headings, such as `page 3, Staff > London`; "" if unknown."""
    path = " > ".join(map(plain, passage.headings))
    return ", ".join(filter(None, [plain(passage.page), path]))


def plain_lines(text: str) -> list[str]:
    """The non-blank lines of a text."""
    return [line for row in text.splitlines() if (line := plain(row))]


def cut(text: str, length: int) -> str:
    """A text of at most `length` characters; a longer one ends with an ellipsis."""
    return text if len(text) <= length else text[: length - 1] + "…"
