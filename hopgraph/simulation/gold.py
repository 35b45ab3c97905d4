"""Cases of perfect agents from gold annotations: decompositions as facts with their evidence sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from hopgraph.evaluation.data import Question, SubQuestion
from hopgraph.evaluation.metrics import normalise, normalise_title
from hopgraph.evaluation.oracle import route_of
from hopgraph.simulation.case import REFERENCE, Case, Fact, same, squeezed
from inference.errors import InputError
from stores.passages import Passage

NOUNS = {
    "award received": "award",
    "educated at": "school",
    "owned by": "owner",
    "followed by": "successor",
    "follows": "predecessor",
    "founded by": "founder",
    "named after": "namesake",
    "member of": "organization",
    "member of sports team": "sports team",
    "part of": "whole",
    "part of the series": "series",
    "capital of": "country",
    "headquarters location": "headquarters",
    "located in the administrative territorial entity": "administrative region",
    "located in or next to body of water": "body of water",
    "shares border with": "neighbour",
    "place of burial": "burial place",
    "publication date": "release date",
}
"""Nouns for Wikidata's relations that are none, or have a more usual one."""


def cases_of(questions: Sequence[Question], passages: Mapping[str, Sequence[Passage]]) -> list[Case]:
    """The cases of questions, in order.

    Args:
        questions: With gold decompositions.
        passages: Gold passages by id or normalised title, a split article as all its pieces; a missing
            passage has no evidence.

    Raises:
        InputError: A question has no decomposition with answers.
    """
    cases = []
    for question in questions:
        steps = [step for step in question.decomposition if step.answer]
        if not steps or len(steps) < len(question.decomposition) or not question.answers:
            raise InputError(
                f"question {question.id} has no gold decomposition with answers, which perfect agents need",
                hint="2wikimultihopqa and musique have them; in your own questions `decomposition` is a list of "
                '{"question", "answer"}',
            )
        facts = tuple(_facts(question, passages))
        cases.append(Case(question.question, question.answers, facts, route_of(question) == "compound"))
    return cases


def _facts(question: Question, passages: Mapping[str, Sequence[Passage]]) -> Iterator[Fact]:
    steps = list({step.question: step for step in reversed(question.decomposition)}.values())[::-1]
    numbers = {step.question: number for number, step in enumerate(steps, start=1)}
    moved = {old: numbers[step.question] for old, step in enumerate(question.decomposition, start=1)}
    references = any(REFERENCE.search(step.question) for step in steps)
    used: set[int] = set()
    for number, step in enumerate(steps, start=1):
        subject, mark, relation = step.question.partition(" >> ")
        if references:
            subject = REFERENCE.sub(lambda match: f"#{moved.get(int(match[1]), int(match[1]))}", subject)
        elif mark and (earlier := _earlier(subject, steps[: number - 1], question.question, used)):
            used.add(earlier)
            subject = f"#{earlier}"
        relation = NOUNS.get(relation, relation)
        words = f"What is the {relation} of {subject}?" if mark else subject
        needs = sorted({int(found) for found in REFERENCE.findall(subject) if 0 < int(found) < number})
        evidence = tuple(_evidence(step, number - 1, len(steps), question, passages))
        yield Fact(number, words, subject if mark else "", relation, tuple(needs), step.answer, evidence)


def _earlier(subject: str, before: Sequence[SubQuestion], question: str, used: set[int]) -> int | None:
    """Number of the earlier step whose answer is the subject; None if the question itself names the subject."""
    for number, step in enumerate(before, start=1):
        if same(subject, step.answer):
            return number
    bare = set(normalise(re.sub(r"\(.*?\)", "", subject)).split())
    if not before or bare <= set(normalise(question).split()):
        return None
    for number, step in enumerate(before, start=1):
        words = set(normalise(step.answer).split())
        if bare <= words or words <= bare:
            return number
    return next((number for number in range(1, len(before) + 1) if number not in used), None)


def _evidence(
    step: SubQuestion, place: int, steps: int, question: Question, passages: Mapping[str, Sequence[Passage]]
) -> Iterator[str]:
    """Sentences of the step's gold passage that state its answer; if none does, the supporting ones, else all."""
    gold = _gold(step, place, steps, question)
    pieces = [piece for key, title in gold for piece in passages.get(key) or passages.get(title) or ()]
    sentences = [sentence for piece in pieces for sentence in piece.sentences or (piece.text,)]
    answer = squeezed(step.answer)
    found = [text for sentence in sentences if answer in (text := squeezed(sentence))]
    supporting = [
        squeezed(piece.sentences[index])
        for piece in pieces
        for title, index in question.gold_sentences
        if normalise_title(title) == normalise_title(piece.title) and not piece.source and index < len(piece.sentences)
    ]
    yield from found or supporting or map(squeezed, sentences)


def _gold(step: SubQuestion, place: int, steps: int, question: Question) -> list[tuple[str, str]]:
    """Id and title of the gold passage with a step's answer.

    If the benchmark doesn't name it: the passage titled like the step's subject, or the one at the same position; else
    all gold passages.
    """
    known = len(question.gold_ids) == len(question.gold_titles)
    ids = question.gold_ids if known else ("",) * len(question.gold_titles)
    gold = list(zip(ids, map(normalise_title, question.gold_titles), strict=True))
    if step.gold_id:
        return [row for row in gold if row[0] == step.gold_id] or [(step.gold_id, "")]
    subject = normalise_title(step.question.partition(" >> ")[0])
    by_title = [row for row in gold if row[1] == subject]
    return by_title or ([gold[place]] if steps == len(gold) else gold)
