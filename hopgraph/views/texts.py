"""Untrusted text as shown by all views: one line each, without control characters, cut to a length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nodes.kit.rendering import plain

if TYPE_CHECKING:
    from stores.passages import Passage


def title_of(key: str, passages: Mapping[str, Passage | None]) -> str:
    """A passage's title; its id if it has none or is unknown."""
    passage = passages.get(key)
    return (plain(passage.title) if passage else "") or key


def plain_lines(text: str) -> list[str]:
    """The non-blank lines of a text."""
    return [line for row in text.splitlines() if (line := plain(row))]


def cut(text: str, length: int) -> str:
    """A text of at most `length` characters; a longer one ends with an ellipsis."""
    return text if len(text) <= length else text[: length - 1] + "…"
