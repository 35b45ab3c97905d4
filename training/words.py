"""Texts compared by their words, without case and punctuation."""

from __future__ import annotations

import re

__all__ = ["content_words", "normalised", "within"]


def normalised(text: str) -> str:
    """A text without case, punctuation and repeated white space: two questions that agree in this count as the same."""
    return " ".join(re.sub(r"[^\w\s]", " ", text.lower()).split())


def within(words: str, text: str) -> bool:
    """Whether a text has some words, whole and in this order; both are normalised first."""
    return f" {normalised(words)} " in f" {normalised(text)} "


_COMMON = frozenset(
    normalised(
        "a an and are at by did do does for from how in is it of on or that the to was were what when where which who "
        "whom whose why with"
    ).split()
)


def content_words(text: str) -> frozenset[str]:
    """The words of a text that say what it is about."""
    return frozenset(normalised(text).split()) - _COMMON
