"""Sub-questions that say whom they are about: CompactRAG's sub-question rewriter (Sec. 3.2.3), as an edit.

The rewriter finds the words of a sub-question that stand for an earlier answer ("this director", "his", "the film that
won") and puts the answer there, with "the", quotation marks or a possessive where they are called for. All other words
stay as they are, and the answer is never lost or altered, which generation can't promise. `training/README.md`
says how it was trained, how well it does, and where it fails.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from inference.heads.npz import load_head
from inference.heads.scores import SPAN, readable, span_scores, whole_words
from inference.heads.trunk import Array, UpperLayers, get_trunk

__all__ = ["FORMS", "Edit", "allowed_spans", "find_answer", "rewrite_questions", "rewrite_with_answers"]

FORMS = (("", ""), ("the ", ""), ("", "'s"), ("", "'"), ("'", "'"), ("in ", ""))
"""What may stand before and after an answer that is put into a sub-question."""
LONGEST_SPAN = 60
"""Word pieces of the longest stretch that is replaced."""
_PLACEHOLDER = re.compile(r"#(\d+)")
_Span = tuple[int, int]
"""Where something starts and ends, in characters."""


class Edit(NamedTuple):
    """What a sub-question's words from `start` to `end`, in characters, are replaced with."""

    start: int
    end: int
    form: int
    """Index of `FORMS`."""

    def applied(self, question: str, answer: str) -> str:
        """The sub-question with the answer in it."""
        before, after = FORMS[self.form]
        if before == "the " and answer.lower().startswith("the "):
            before = ""
        return question[: self.start] + before + answer + after + question[self.end :]


def rewrite_questions(items: Sequence[tuple[str, str]]) -> list[str]:
    """Sub-questions with an earlier answer in them, in the order given. Thread-safe.

    An item's result does not depend on its neighbours, and it holds the answer word for word. A sub-question comes back
    as it is when the answer is empty or already in it. `#1` and its like are replaced without further ado, the
    lowest number first.

    Args:
        items: A sub-question and the answer that it builds on.

    Raises:
        StoreError: The encoder or the trained weights can't be read.
    """
    return [rewrite_with_answers(question, [answer]) for question, answer in items]


def rewrite_with_answers(question: str, answers: Sequence[str]) -> str:
    """A sub-question with several earlier answers in it, put there one after the other.

    An answer never replaces one before it: where nothing else stands for it, it is joined to the last of them with
    "and". What looks like `#1` in an answer is part of that answer.

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
    """A sub-question with one more answer, and where the answers are in it that must stay, that one last."""
    edit = _best_edit(question, answer)
    if edit and not any(edit.start < end and start < edit.end for start, end in kept):
        at, text = edit.start, edit.applied(question, answer)
    elif kept:
        start, end = kept[-1]  # which may be a part of another answer
        at = max(after for before, after in kept if before <= start and end <= after)
        text = f"{question[:at]} and {answer}{question[at:]}"
    else:
        at = len(question.rstrip())
        text = f"{question[:at]} ({answer})"
    longer, place = len(text) - len(question), text.index(answer, at)
    moved = [(start + longer, end + longer) if start >= at else (start, end) for start, end in kept]
    return text, [*moved, (place, place + len(answer))]


def find_answer(question: str, answer: str) -> re.Match[str] | None:
    """Where an answer is in a sub-question already, in any case, as words of its own: "Eric" is not in "American"."""
    return re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", question, re.IGNORECASE)


def _best_edit(question: str, answer: str) -> Edit | None:
    """The most probable edit; None for a sub-question without words."""
    trunk, (upper, weights) = get_trunk(), _head()
    encoding = trunk.pieces(readable(question, 5000), readable(answer, 1000))
    allowed = allowed_spans(encoding.word_ids, encoding.sequence_ids)
    if not allowed.any():
        return None
    states = upper.states(trunk.states(encoding.ids))
    scores = np.where(allowed, span_scores(states, weights), -np.inf)
    start, end = (int(place) for place in np.unravel_index(scores.argmax(), scores.shape))
    forms: Array = np.concatenate([states[0], states[start], states[end]]) @ weights["form"] + weights["form_bias"]
    return Edit(encoding.offsets[start][0], encoding.offsets[end][1], int(forms.argmax()))


def allowed_spans(words: Sequence[int | None], texts: Sequence[int | None]) -> NDArray[np.bool_]:
    """Which stretches can be replaced, by first and last word piece: whole words of the sub-question, not too many.

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
def _head() -> tuple[UpperLayers, dict[str, Array]]:
    """The trained upper layers, and the heads: which stretch is replaced, and the form of what replaces it."""
    return load_head("rewriter.npz", (*SPAN, "form", "form_bias"), hint="make train-rewriter")
