"""CompactRAG's answer extractor (Sec. 3.2.2): the span of retrieved question-answer pairs that answers a question.

A span head reads the question together with the pairs. `training/README.md` says how it was trained, how well
it does, and where it fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from inference.heads.npz import load_head
from inference.heads.scores import SPAN, readable, softmax, span_scores, whole_words
from inference.heads.trunk import LONGEST, Array, UpperLayers, get_trunk

if TYPE_CHECKING:
    from tokenizers import Encoding

__all__ = ["LONGEST_ANSWER", "Extraction", "allowed_spans", "answer_pieces", "extract_answers", "likeness"]

LONGEST_ANSWER = 40
"""Maximum word pieces of an answer."""
_SPECIAL_PIECES = 3


class Extraction(NamedTuple):
    """An answer found in a context."""

    answer: str
    """Verbatim text of the context; empty without pairs."""
    start: int
    """Start, as a character offset into the context."""
    end: int
    """End, exclusive."""
    probability: float
    """Probability of this span among all allowed ones, 0 to 1."""


class _Pair(NamedTuple):
    """Character offsets of a pair in the context."""

    start: int
    answer: int
    end: int


def extract_answers(items: Sequence[tuple[str, str]]) -> list[Extraction]:
    """Answers to questions, in the order given; an item's result does not depend on its neighbours. Thread-safe.

    Args:
        items: A question and its context: pairs as `question`, line break, `answer`, with a blank line between two. A
            pair of one line is all answer. An answer never takes words of a pair's question, nor of two pairs.

    Raises:
        StoreError: The encoder or the trained weights can't be read.
    """
    return [_extract(question, context) for question, context in items]


def _extract(question: str, context: str) -> Extraction:
    question, text = readable(question, 1000), readable(context, 50_000)
    found = [_scored_spans(question, text[start:end], start) for start, end in _windows(question, text)]
    spans, scores = [span for some, _ in found for span in some], [scores for _, scores in found]
    if not spans:
        return Extraction("", 0, 0, 0.0)
    probabilities = softmax(np.concatenate(scores))
    best = int(probabilities.argmax())
    start, end = spans[best]
    return Extraction(context[start:end], start, end, float(probabilities[best]))


def _scored_spans(question: str, text: str, at: int) -> tuple[list[tuple[int, int]], Array]:
    """All allowed spans, as character offsets plus `at`, and their scores."""
    trunk, (upper, weights) = get_trunk(int8=True), _head()
    encoding = trunk.pieces(question, text)
    pairs = answer_pieces(encoding, text)
    firsts, lasts = np.nonzero(allowed_spans(encoding.word_ids, pairs))
    if not len(firsts):
        return [], np.zeros(0, np.float32)
    scores = span_scores(upper.states(trunk.states(encoding.ids)), weights)
    fitting: Array = likeness(question, text) @ weights["likeness"]
    offsets = encoding.offsets
    spans = [(at + offsets[i][0], at + offsets[j][1]) for i, j in zip(firsts, lasts, strict=True)]
    return spans, scores[firsts, lasts] + fitting[pairs[firsts]]


def allowed_spans(words: Sequence[int | None], pairs: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mask of allowed spans, by first and last word piece: whole words of one pair's answer, not too long.

    Args:
        words: Which word each piece is of.
        pairs: Which pair's answer each piece is of, as `answer_pieces` gives it.
    """
    starts, ends = whole_words(words)
    place = np.arange(len(pairs))
    reach = place[None, :] - place[:, None]
    same: NDArray[np.bool_] = (pairs[:, None] == pairs) & (pairs >= 0)
    return same & (reach >= 0) & (reach < LONGEST_ANSWER) & starts[:, None] & ends


def answer_pieces(encoding: Encoding, text: str) -> NDArray[np.int64]:
    """Which pair's answer each word piece is of, counted from 0; -1 for pieces that are no answer's. Shape (pieces,).

    Args:
        encoding: A question and pairs, read together.
        text: The pairs.
    """
    numbers = np.full(len(encoding.ids), -1, np.int64)
    second = np.array([text_number == 1 for text_number in encoding.sequence_ids])
    offsets = np.array(encoding.offsets)
    for number, pair in enumerate(_pairs(text)):
        inside = (offsets[:, 0] >= pair.answer) & (offsets[:, 1] <= pair.end) & (offsets[:, 0] < offsets[:, 1])
        numbers[second & inside] = number
    return numbers


def likeness(question: str, text: str) -> Array:
    """Lexical overlap of a question with each pair, shape (pairs, 2), numbered as in `answer_pieces`.

    F1 of the words of the two questions, and the share of the question's words that the whole pair has.
    """
    asked = _words(question)
    rows = []
    for pair in _pairs(text):
        own, whole = _words(text[pair.start : pair.answer]), _words(text[pair.start : pair.end])
        rows.append((2 * len(asked & own) / max(len(asked) + len(own), 1), len(asked & whole) / max(len(asked), 1)))
    return np.array(rows, np.float32).reshape(-1, 2)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def _pairs(context: str) -> list[_Pair]:
    """The pairs of a context that have an answer."""
    found, at = [], 0
    for gap in [*re.finditer(r"\n[^\S\n]*\n\s*", context), None]:
        end = gap.start() if gap else len(context)
        start, block = at, context[at:end].rstrip()
        at = gap.end() if gap else end
        if block.strip():
            start += len(block) - len(block.lstrip())
            line = context.find("\n", start, start + len(block.lstrip()))
            found.append(_Pair(start, start if line < 0 else line + 1, start + len(block.lstrip())))
    return found


def _windows(question: str, context: str) -> Iterator[tuple[int, int]]:
    """Windows of a context that fit the encoder together with the question, cut between pairs; character spans."""
    trunk, pairs = get_trunk(int8=True), _pairs(context)
    room = LONGEST - len(trunk.pieces(question).ids) - (_SPECIAL_PIECES - 2)
    taken: list[_Pair] = []
    used = 0
    for pair in pairs:
        size = len(trunk.pieces("", context[pair.start : pair.end]).ids) - _SPECIAL_PIECES
        if taken and used + size > room:
            yield taken[0].start, taken[-1].end
            taken, used = [], 0
        taken.append(pair)
        used += size
    if taken:
        yield taken[0].start, taken[-1].end


@lru_cache(maxsize=1)
def _head() -> tuple[UpperLayers, dict[str, Array]]:
    """The trained upper layers, and the span head with the weights of likeness."""
    return load_head("extractor.npz", (*SPAN, "likeness"), hint="make train-extractor", int8=True)
