"""Questions with their gold annotations, and samples of questions."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class SubQuestion:
    """A step of a question's gold decomposition."""

    question: str
    """In the benchmark's wording; `#1` refers to the first step's answer."""
    answer: str = ""
    """"" if the benchmark gives none."""
    gold_id: str = ""
    """Id of the passage that answers it, if known."""


@dataclass(frozen=True)
class Question:
    """A question with its gold annotations."""

    id: str
    question: str
    answers: tuple[str, ...] = ()
    """All correct aliases; empty if the question has no answer or its answer is unknown."""
    type: str = ""
    """The benchmark's question type, such as `bridge`."""
    hops: int | None = None
    answerable: bool = True
    """False: abstaining is correct (MultiHop-RAG's null queries, SQuAD 2.0)."""
    gold_ids: tuple[str, ...] = ()
    """Ids of the passages needed to answer it."""
    gold_titles: tuple[str, ...] = ()
    """Their titles, in the same order where both are given."""
    gold_sentences: tuple[tuple[str, int], ...] = ()
    """Supporting facts: title of the passage, sentence index from 0."""
    decomposition: tuple[SubQuestion, ...] = ()
    entities: tuple[tuple[str, ...], ...] = ()
    """A compound question's answers, each with its aliases."""
    contexts: tuple[dict[str, Any], ...] = ()
    """The benchmark's passages for it, gold and distractors: `title`, `text`, optionally `sentences`."""
    gold_contexts: tuple[int, ...] = ()
    """Indices of the gold `contexts`, from 0, if the benchmark gives them: MuSiQue has several of one title."""


def sample(
    questions: Sequence[Question], limit: int | None, seed: int | None, *, stratified: bool = False
) -> list[Question]:
    """At most `limit` questions in file order: the first ones, or with a seed a reproducible random sample.

    Args:
        questions: All.
        limit: None: all of them.
        seed: None: the first ones.
        stratified: Keep the shares of types and hops (CompactRAG, Sec. 4.1), to a question each; without a seed, that
            of seed 0.
    """
    if limit is None or limit >= len(questions):
        return list(questions)
    if stratified:
        return [questions[at] for at in _stratified(questions, limit, seed or 0)]
    if seed is None:
        return list(questions[:limit])
    chosen = random.Random(seed).sample(range(len(questions)), limit)  # noqa: S311
    return [questions[at] for at in sorted(chosen)]


def _stratified(questions: Sequence[Question], limit: int, seed: int) -> list[int]:
    """Places of a sample whose strata have their shares, rounded by largest remainder."""
    strata: dict[tuple[str, int], list[int]] = {}
    for at, question in enumerate(questions):
        strata.setdefault((question.type, question.hops or 0), []).append(at)
    exact = {key: limit * len(places) / len(questions) for key, places in strata.items()}
    counts = {key: int(share) for key, share in exact.items()}
    remainders = sorted(strata, key=lambda key: (counts[key] - exact[key], key))
    for key in remainders[: limit - sum(counts.values())]:
        counts[key] += 1
    draw = random.Random(seed)  # noqa: S311
    return sorted(at for key in sorted(strata) for at in draw.sample(strata[key], counts[key]))


def as_row(question: Question) -> dict[str, Any]:
    """A question as a row of JSON Lines, without empty fields."""
    row = asdict(question)
    row["supporting_facts"] = row.pop("gold_sentences")
    kept = {key: value for key, value in row.items() if value not in ((), [], "", None) and value is not True}
    return dict(json.loads(json.dumps({"id": question.id, "question": question.question, **kept})))
