"""Checks of the questions that a model writes; each gives the cause of a rejection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stores.passages import Passage
from training.revelator.compound.entities import Entity
from training.words import content_words, normalised, within

MAX_ANSWER_WORDS = 8
"""An answer is "a few words" (App. B.1)."""


@dataclass(frozen=True, slots=True)
class Part:
    """A simple question that passed all checks."""

    question: str
    answer: str
    passage: Passage


def part_fault(
    question: str, answer: str, entity: Entity, passage: Passage, taken: Iterable[Part], dev: Iterable[str] = ()
) -> str:
    """Why a simple question is rejected; "" if it is accepted."""
    asked, said = normalised(question), normalised(answer)
    if not asked or not question.rstrip().endswith("?"):
        return "no question"
    if not said or len(said.split()) > MAX_ANSWER_WORDS:
        return "answer not of a few words"
    if not within(said, normalised(passage.text)):
        return "answer not in the passage"
    if not within(normalised(entity.name), asked):
        return "entity not named"
    if within(said, asked):
        return "answer given away"
    if asked in dev:
        return "a dev question"
    if any(asked == normalised(part.question) or said == normalised(part.answer) for part in taken):
        return "repeats another part"
    return ""


def merged_fault(question: str, entity: Entity, parts: Sequence[Part], dev: Iterable[str] = ()) -> str:
    """Why a compound question is rejected; "" if it is accepted."""
    asked = normalised(question)
    if not asked:
        return "declined"
    if not question.rstrip().endswith("?"):
        return "no question"
    if not within(normalised(entity.name), asked):
        return "entity not named"
    if any(within(normalised(part.answer), asked) for part in parts):
        return "answer given away"
    if any(not _asked_for(part, entity, asked) for part in parts):
        return "a part is lost"
    if asked in dev:
        return "a dev question"
    return ""


def _asked_for(part: Part, entity: Entity, asked: str) -> bool:
    """Whether half of a part's own words come back, inflected perhaps."""
    own = content_words(part.question) - content_words(entity.name)
    stems = {word[:5] for word in asked.split()}
    return 2 * sum(word[:5] in stems for word in own) >= len(own)
