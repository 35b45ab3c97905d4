"""Comparison of texts by words, ignoring case and punctuation."""

from __future__ import annotations

import re


def normalised(text: str) -> str:
    """A text without case, punctuation and repeated white space, the key for duplicate questions."""
    return " ".join(re.sub(r"[^\w\s]", " ", text.lower()).split())


def within(words: str, text: str) -> bool:
    """Whether a text contains a sequence of whole words; both are normalised first."""
    return f" {normalised(words)} " in f" {normalised(text)} "


_COMMON = frozenset(
    normalised(
        "a an and are at by did do does for from how in is it of on or that the to was were what when where which who "
        "whom whose why with"
    ).split()
)


def content_words(text: str) -> frozenset[str]:
    """The words of a text without stop words."""
    return frozenset(normalised(text).split()) - _COMMON
