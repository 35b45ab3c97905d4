"""Sub-questions that say whom they are about: CompactRAG's sub-question rewriter (Sec. 3.2.3), as an edit.

The rewriter finds the words of a sub-question that stand for an earlier answer ("this director", "his", "the film that
won") and puts the answer there, with "the", quotation marks or a possessive where they are called for. All other words
stay as they are, and the answer is never lost or altered, which generation can't promise. `hopgraph/training/README.md`
says how it was trained, how well it does, and where it fails.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from inference.heads import SPAN, Array, UpperLayers, get_trunk, load_head, readable, span_scores, whole_words

__all__ = ["FORMS", "Edit", "allowed_spans", "find_answer", "rewrite_questions", "rewrite_with_answers"]

FORMS = (("", ""), ("the ", ""), ("", "'s"), ("", "'"), ("'", "'"), ("in ", ""))
"""What may stand before and after an answer that is put into a sub-question."""
LONGEST_SPAN = 60
"""Word pieces of the longest stretch that is replaced."""
_PLACEHOLDER = re.compile(r"#(\d+)")


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
    return [_rewritten(question, answer) for question, answer in items]


def rewrite_with_answers(question: str, answers: Sequence[str]) -> str:
    """A sub-question with several earlier answers in it, put there one after the other.

    An answer never replaces one before it: where nothing else stands for it, it is joined to that one with "and".

    Raises:
        StoreError: The encoder or the trained weights can't be read.
    """
    given: list[str] = []
    for answer in (answer.strip() for answer in answers):
        last = given[-1] if given else ""
        if last and answer and not _PLACEHOLDER.search(question) and not find_answer(question, answer):
            hidden = _best_edit(question, answer)
            place = question.find(last)
            if hidden is None or (hidden.start < place + len(last) and hidden.end > place):
                question = f"{question[: place + len(last)]} and {answer}{question[place + len(last) :]}"
            else:
                question = hidden.applied(question, answer)
        else:
            question = _rewritten(question, answer)
        given += [answer] if answer else []
    return question


def _rewritten(question: str, answer: str) -> str:
    answer = answer.strip()
    if not answer or not question.strip():
        return question
    if numbers := [int(found[1]) for found in _PLACEHOLDER.finditer(question)]:
        return re.sub(rf"#{min(numbers)}(?!\d)", lambda _: answer, question)
    if find_answer(question, answer):
        return question
    edit = _best_edit(question, answer)
    return edit.applied(question, answer) if edit else f"{question.rstrip()} ({answer})"


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
