"""Question-answer pairs as an extractor's context: where their halves are, which of their words can answer (Eq. 1)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from inference.heads.scores import whole_words
from inference.heads.trunk import Array

if TYPE_CHECKING:
    from tokenizers import Encoding

LONGEST_ANSWER = 40
"""Word pieces of the longest answer that is looked for."""
LIKENESS = 4
"""Measures of how much a question is like a pair."""
_FUNCTION_WORDS = frozenset(
    {
        "a",
        "an",
        "the",
        "of",
        "in",
        "on",
        "at",
        "by",
        "for",
        "to",
        "from",
        "with",
        "and",
        "as",
        "is",
        "was",
        "are",
        "were",
        "be",
        "been",
        "s",
    }
)
_ASKING_WORDS = frozenset(
    {
        "who",
        "whom",
        "whose",
        "what",
        "which",
        "when",
        "where",
        "why",
        "how",
        "do",
        "does",
        "did",
        "has",
        "have",
        "had",
        "that",
        "it",
        "its",
    }
)


class Pair(NamedTuple):
    """Where a pair is in a context, in characters; of a pair of one line the question is empty."""

    start: int
    answer: int
    end: int


def pairs_in(context: str) -> list[Pair]:
    """The pairs of a context: `question`, line break, `answer`, with a blank line between two."""
    found, at = [], 0
    for gap in [*re.finditer(r"\n[^\S\n]*\n\s*", context), None]:
        end = gap.start() if gap else len(context)
        start, block = at, context[at:end].rstrip()
        at = gap.end() if gap else end
        if block.strip():
            start += len(block) - len(block.lstrip())
            line = context.find("\n", start, start + len(block.lstrip()))
            found.append(Pair(start, start if line < 0 else line + 1, start + len(block.lstrip())))
    return found


def pair_halves(offsets: Sequence[tuple[int, int]], texts: Sequence[int | None], context: str) -> NDArray[np.int64]:
    """Which half of which pair each word piece is of, shape (pieces,).

    2n is the question of pair n, counted from 0, 2n + 1 its answer, -1 neither.

    Args:
        offsets: Where each piece starts and ends, in characters of its text.
        texts: Which text each piece is of; the context is 1.
        context: The pairs.
    """
    halves = np.full(len(offsets), -1, np.int64)
    second = np.array([text == 1 for text in texts], bool)
    places = np.array(offsets).reshape(-1, 2)
    for number, pair in enumerate(pairs_in(context)):
        for half, (first, last) in enumerate(((pair.start, pair.answer), (pair.answer, pair.end))):
            inside = (places[:, 0] >= first) & (places[:, 1] <= last) & (places[:, 0] < places[:, 1])
            halves[second & inside] = 2 * number + half
    return halves


def allowed_spans(
    words: Sequence[int | None], halves: NDArray[np.int64], fresh: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which stretches can be an answer, by first and last word piece.

    They are whole words of one half of a pair, at most `LONGEST_ANSWER` pieces, and at least one piece is fresh.

    Args:
        words: Which word each piece is of.
        halves: As `pair_halves` gives them.
        fresh: As `fresh_pieces` gives them.
    """
    starts, ends = whole_words(words)
    place = np.arange(len(halves))
    reach = place[None, :] - place[:, None]
    count = np.concatenate([[0], np.cumsum(fresh)])
    same: NDArray[np.bool_] = (halves[:, None] == halves) & (halves >= 0)
    same &= count[None, 1:] > count[:-1, None]
    return same & (reach >= 0) & (reach < LONGEST_ANSWER) & starts[:, None] & ends


def fresh_pieces(encoding: Encoding, question: str, context: str) -> NDArray[np.bool_]:
    """Which word pieces are of words of the context that can answer by themselves, shape (pieces,)."""
    wanted = np.zeros(len(context) + 1, np.int64)
    for start, end in fresh_words(question, context):
        wanted[start:end] = 1
    count = np.concatenate([[0], np.cumsum(wanted)])
    places = np.array(encoding.offsets).reshape(-1, 2)
    second = np.array([text == 1 for text in encoding.sequence_ids], bool)
    first, last = np.minimum(places.T, len(context))
    fresh: NDArray[np.bool_] = second & (count[last] > count[first])
    return fresh


def fresh_words(question: str, context: str) -> list[tuple[int, int]]:
    """Where the context has words that an answer can consist of, in characters: words that the question does not have.

    Function words are none. An either-or question ("... X or Y?") is answered with words of its own: there all others
    count.
    """
    own = set(_words(question))
    barred = _FUNCTION_WORDS if "or" in own else own | _FUNCTION_WORDS
    return [found.span() for found in re.finditer(r"\w+", context) if _plain(found[0]) not in barred]


def likeness(question: str, context: str) -> Array:
    """How much the words of a question are those of each pair, shape (pairs, LIKENESS).

    F1 of the words of the two questions; the share of the question's words that the whole pair has; the same two of
    content words alone, by their first five letters.
    """
    asked = set(_words(question))
    rows = []
    for pair in pairs_in(context):
        own, said = _words(context[pair.start : pair.answer]), _words(context[pair.answer : pair.end])
        rows.append(
            [
                *_overlap(asked, {*own}, {*own, *said}),
                *_overlap(_content(asked), _content(own), _content([*own, *said])),
            ]
        )
    return np.array(rows, np.float32).reshape(-1, LIKENESS)


def _overlap(asked: set[str], own: set[str], whole: set[str]) -> tuple[float, float]:
    return 2 * len(asked & own) / max(len(asked) + len(own), 1), len(asked & whole) / max(len(asked), 1)


def _content(words: Sequence[str] | set[str]) -> set[str]:
    return {word[:5] for word in words if word not in _FUNCTION_WORDS and word not in _ASKING_WORDS}


def _words(text: str) -> list[str]:
    return [_plain(word) for word in re.findall(r"\w+", text)]


def _plain(word: str) -> str:
    """A word without case and accents, as the encoder reads it."""
    if word.isascii():
        return word.lower()
    return "".join(c for c in unicodedata.normalize("NFD", word.lower()) if not unicodedata.combining(c))
