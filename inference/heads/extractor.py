"""The words of retrieved question-answer pairs that answer a question: CompactRAG's answer extractor (Sec. 3.2.2).

A span head reads the question together with the pairs. `training/README.md` says how it was trained, how well
it does, and where it fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from inference.heads.npz import load_head
from inference.heads.pair_context import Pair, allowed_spans, fresh_pieces, likeness, pair_halves, pairs_in
from inference.heads.scores import SPAN, SpanScores, readable, softmax
from inference.heads.trunk import LONGEST, Array, UpperLayers, get_trunk

_SPECIAL_PIECES = 3
_NEVER = np.float32(-100)
"""Score of no answer where a pair asks what is asked: far below all others."""


class Extraction(NamedTuple):
    """An answer found in a context."""

    answer: str
    """As it stands in the context; empty when no pair answers."""
    start: int
    """Where it starts, in characters of the context."""
    end: int
    """Where it ends."""
    probability: float
    """Of this span among all that could be the answer and there being none, 0 to 1; 0 for no answer."""


def extract_answers(items: Sequence[tuple[str, str]]) -> list[Extraction]:
    """Answers to questions, in the order given; an item's result does not depend on its neighbours. Thread-safe.

    Args:
        items: A question and its context: pairs as `question`, line break, `answer`, with a blank line between two. A
            pair of one line is all answer. An answer is a stretch of a pair's question or of its answer and has, but
            for either-or questions, a word that the question lacks. No answer is given where "none of the pairs
            answers" is more probable than all stretches together, unless a pair's question has the same words.

    Raises:
        StoreError: The encoder or the trained weights can't be read.
    """
    return [_extract(question, context) for question, context in items]


def _extract(question: str, context: str) -> Extraction:
    spans, scores = answer_scores(question, context)
    probabilities = softmax(np.concatenate([scores, np.zeros(1, np.float32)]))
    if probabilities[-1] >= 0.5:
        return Extraction("", 0, 0, 0.0)
    best = int(probabilities[:-1].argmax())
    start, end = spans[best]
    return Extraction(context[start:end], start, end, float(probabilities[best]))


def answer_scores(question: str, context: str) -> tuple[list[tuple[int, int]], Array]:
    """All stretches that can be the answer, in characters, and their scores; that of no answer is 0.

    Raises:
        StoreError: The encoder or the trained weights can't be read.
    """
    question, text = readable(question, 1000), readable(context, 50_000)
    found = [_window_scores(question, text[start:end], start) for start, end in _windows(question, text)]
    scores = [part for _, part in found]
    return [span for some, _ in found for span in some], np.concatenate(scores or [np.zeros(0, np.float32)])


def _window_scores(question: str, text: str, at: int) -> tuple[list[tuple[int, int]], Array]:
    """The stretches of a part of the context, in characters counted from `at` on, and their scores."""
    trunk, (upper, spans, weights) = get_trunk(int8=True), _head()
    encoding = trunk.pieces(question, text)
    halves = pair_halves(encoding.offsets, encoding.sequence_ids, text)
    fresh = fresh_pieces(encoding, question, text)
    firsts, lasts = np.nonzero(allowed_spans(encoding.word_ids, halves, fresh))
    if not len(firsts):
        return [], np.zeros(0, np.float32)
    scores = spans(upper.states(trunk.states(encoding.ids)))
    alike = likeness(question, text)
    fitting: Array = alike @ weights["likeness"]
    offsets = encoding.offsets
    places = [(at + offsets[i][0], at + offsets[j][1]) for i, j in zip(firsts, lasts, strict=True)]
    # The first piece, which is of neither text, stands for "none of these"; less so beside a pair that asks nearly the
    # same, and not at all beside one that asks the same.
    closest = alike[:, 0].max()
    none = scores[0, 0] + weights["none"][0] - weights["none"][1] * closest if closest < 1 else _NEVER
    return places, scores[firsts, lasts] + fitting[halves[firsts] // 2] - none


def _windows(question: str, context: str) -> Iterator[tuple[int, int]]:
    """Stretches of a context that the encoder can read beside the question, cut between pairs; in characters."""
    trunk, pairs = get_trunk(int8=True), pairs_in(context)
    room = LONGEST - len(trunk.pieces(question).ids) - (_SPECIAL_PIECES - 2)
    taken: list[Pair] = []
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
def _head() -> tuple[UpperLayers, SpanScores, dict[str, Array]]:
    """The trained upper layers, the span head, and the weights of likeness and of no answer."""
    upper, weights = load_head("extractor.npz", (*SPAN, "likeness", "none"), hint="make train-extractor", int8=True)
    return upper, SpanScores(weights), weights
