"""CompactRAG's sub-question rewriter (Sec. 3.2.3), as an edit that resolves references to earlier answers.

The rewriter finds the words of a sub-question that refer to an earlier answer ("this director", "his", "the film that
won") and replaces them by the answer, with "the", quotation marks or a possessive where needed. All other words stay
unchanged, and the answer is never lost or altered, which generation can't guarantee. `training/README.md` has its
training, quality and failure cases.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from inference.heads.npz import load_head
from inference.heads.scores import SPAN, SpanScores, readable, times, whole_words
from inference.heads.trunk import Array, UpperLayers, get_trunk

FORMS = (("", ""), ("the ", ""), ("", "'s"), ("", "'"), ("'", "'"), ("in ", ""))
"""Prefix and suffix of an inserted answer."""
LONGEST_SPAN = 60
"""Maximum word pieces of a replaced span."""
_PLACEHOLDER = re.compile(r"#(\d+)")
_Span = tuple[int, int]
"""Character offsets: start and end, exclusive."""


class Edit(NamedTuple):
    """Replacement of a sub-question's characters from `start` to `end`."""

    start: int
    end: int
    form: int
    """Index of `FORMS`."""

    def applied(self, question: str, answer: str) -> str:
        """The sub-question with the answer inserted."""
        before, after = FORMS[self.form]
        if before == "the " and answer.lower().startswith("the "):
            before = ""
        return question[: self.start] + before + answer + after + question[self.end :]


def rewrite_questions(items: Sequence[tuple[str, str]]) -> list[str]:
    """Insert an earlier answer into each sub-question; results are in the order given. Thread-safe.

    An item's result does not depend on its neighbours and contains the answer verbatim. A sub-question is returned
    unchanged if the answer is empty or already in it. Placeholders such as `#1` are replaced directly, the lowest
    number first.

    Args:
        items: A sub-question and the answer it depends on.

    Raises:
        StoreError: The encoder or the trained weights can't be read.
    """
    return [rewrite_with_answers(question, [answer]) for question, answer in items]


def rewrite_with_answers(question: str, answers: Sequence[str]) -> str:
    """Insert several earlier answers into a sub-question, one after the other.

    An answer never replaces an earlier one: without a reference of its own, it is joined to the last of them with
    "and". A `#1` inside an answer is not a placeholder.

    Raises:
        StoreError: The encoder or the trained weights can't be read.
    """
    given = [answer.strip() for answer in answers if answer.strip()]
    if not question.strip():
        return question
    numbers = sorted({int(found[1]) for found in _PLACEHOLDER.finditer(question)})
    placed = dict(zip(numbers, given, strict=False))
    question = _PLACEHOLDER.sub(lambda found: placed.get(int(found[1]), found[0]), question)
    kept = [found.span() for answer in placed.values() if (found := find_answer(question, answer))]
    for answer in given[len(placed) :]:
        if found := find_answer(question, answer):
            kept.append(found.span())
        else:
            question, kept = _put(question, answer, kept)
    return question


def _put(question: str, answer: str, kept: list[_Span]) -> tuple[str, list[_Span]]:
    """A sub-question with one more answer, and the spans of all inserted answers, the new one last."""
    edit = _best_edit(question, answer)
    if edit and not any(edit.start < end and start < edit.end for start, end in kept):
        at, text = edit.start, edit.applied(question, answer)
    elif kept:
        start, end = kept[-1]  # it may be part of another answer
        at = max(after for before, after in kept if before <= start and end <= after)
        text = f"{question[:at]} and {answer}{question[at:]}"
    else:
        at = len(question.rstrip())
        text = f"{question[:at]} ({answer})"
    longer, place = len(text) - len(question), text.index(answer, at)
    moved = [(start + longer, end + longer) if start >= at else (start, end) for start, end in kept]
    return text, [*moved, (place, place + len(answer))]


def find_answer(question: str, answer: str) -> re.Match[str] | None:
    """An answer's whole-word, case-insensitive match in a sub-question: "Eric" does not match "American"."""
    return re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", question, re.IGNORECASE)


def _best_edit(question: str, answer: str) -> Edit | None:
    """The most probable edit; None for a sub-question without words."""
    trunk, (upper, spans, weights) = get_trunk(), _head()
    encoding = trunk.pieces(readable(question, 5000), readable(answer, 1000))
    allowed = allowed_spans(encoding.word_ids, encoding.sequence_ids)
    if not allowed.any():
        return None
    states = upper.states(trunk.states(encoding.ids))
    scores = np.where(allowed, spans(states), -np.inf)
    start, end = (int(place) for place in np.unravel_index(scores.argmax(), scores.shape))
    forms = times(np.concatenate([states[0], states[start], states[end]]), weights["form"]) + weights["form_bias"]
    return Edit(encoding.offsets[start][0], encoding.offsets[end][1], int(forms.argmax()))


def allowed_spans(words: Sequence[int | None], texts: Sequence[int | None]) -> NDArray[np.bool_]:
    """Mask of replaceable spans, by first and last word piece: whole words of the sub-question, not too many.

    Args:
        words: Which word each piece is of.
        texts: Which text each piece is of; the sub-question is the first.
    """
    starts, ends = whole_words(words)
    own = np.array([text == 0 for text in texts], bool)
    place = np.arange(len(own))
    reach = place[None, :] - place[:, None]
    inside: NDArray[np.bool_] = own[:, None] & own
    return inside & (reach >= 0) & (reach < LONGEST_SPAN) & starts[:, None] & ends


@lru_cache(maxsize=1)
def _head() -> tuple[UpperLayers, SpanScores, dict[str, Array]]:
    """The trained upper layers, the span head, and the weights that score forms."""
    upper, weights = load_head("rewriter.npz", (*SPAN, "form", "form_bias"), hint="make train-rewriter")
    return upper, SpanScores(weights), weights
