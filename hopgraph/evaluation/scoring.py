"""Scores of one result against its question's gold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from typing_extensions import TypedDict

from hopgraph.evaluation.control import hop_counts, levels, reviews
from hopgraph.evaluation.costs import COSTS
from hopgraph.evaluation.data import Question
from hopgraph.evaluation.gold import counts_as, gold_of
from hopgraph.evaluation.metrics import METRICS, Fact, Outcome, exact_match, normalise_title
from hopgraph.results import Result
from nodes.kit.state import SentenceRef
from stores.passages import Passage

_NO_ANSWER = "no answer"
"""Prediction and gold answer of a correct abstention."""


class Scored(Result):
    """A line of `results.jsonl`: a result with its gold answers and scores."""

    variant: str
    """Name of the variant."""
    answers: list[str]
    """The gold answers."""
    metrics: dict[str, float]
    """By name in `METRICS`: those that apply."""


class Record(TypedDict):
    """The part of a line of `results.jsonl` that a summary needs."""

    variant: str
    method: str
    id: str
    status: str
    error: str
    """Kind of its error; "" if it did not fail."""
    metrics: dict[str, float]
    cost: dict[str, float]
    truncated: bool
    fallback: bool
    unsupported: bool
    """Answered without evidence, by a method that searches."""


def score(
    result: Result,
    question: Question,
    passages: Mapping[str, Passage],
    *,
    starts: Mapping[str, int] | None = None,
) -> dict[str, float]:
    """The `METRICS` of one result for which its question has gold.

    A failed run is wrong. For an unanswerable question, status `unanswerable` is correct, and so is an abstention that
    equals the gold answer (`Unknown`).

    Args:
        result: The result.
        question: Its question, from `gold.as_known`.
        passages: The passages it mentions, by id; a piece of a split article counts as the article.
        starts: Index in the article of the first sentence of each piece, by passage id; gold uses article indices.
    """
    return METRICS.measure(_outcome(result, question, passages, starts or {}))


def _outcome(result: Result, question: Question, passages: Mapping[str, Passage], starts: Mapping[str, int]) -> Outcome:
    prediction = result["answer"] if result["status"] == "answered" else _true_word(result, question)
    answer: tuple[str, Sequence[str]] | None = (prediction, question.answers)
    if not question.answerable and result["status"] == "unanswerable":
        answer = (_NO_ANSWER, [_NO_ANSWER])
    elif question.answerable and not question.answers:
        answer = None
    entities = (prediction, question.entities) if question.entities else None
    steps = Outcome(levels=levels(result), reviews=reviews(result, question), hops=hop_counts(result, question))
    gold = gold_of(question)
    if not gold:
        return replace(steps, answer=answer, entities=entities)
    evidence, retrieved = ({counts_as(key, question, passages) for key in result[k]} for k in ("evidence", "retrieved"))
    return replace(
        steps,
        answer=answer,
        entities=entities,
        evidence=(evidence, gold),
        retrieved=(retrieved, gold),
        facts=_facts(result, question, passages, starts),
    )


def _true_word(result: Result, question: Question) -> str:
    """An abstention in the very words of the gold answer, such as "Unknown" or "None", is that answer; else ""."""
    words = result.get("abstention", "") if result["status"] == "unanswerable" else ""
    return words if exact_match(words, question.answers) else ""


def _facts(
    result: Result, question: Question, passages: Mapping[str, Passage], starts: Mapping[str, int]
) -> tuple[set[Fact], set[Fact]] | None:
    """Evidence and gold sentences; None if the question or the run has no sentences."""
    sentences, gold = named_sentences(result), gold_of(question)
    if not question.gold_sentences or sentences is None:
        return None

    def as_fact(key: str, at: int) -> Fact:
        # Facts identify their passage by title, which a passage that is not gold may share.
        unit = counts_as(key, question, passages)
        return normalise_title(passages[key].title) if unit in gold else unit, starts.get(key, 0) + at

    right = {(normalise_title(title), at) for title, at in question.gold_sentences}
    return {as_fact(key, at) for key, at in sentences if key in passages}, right


def named_sentences(result: Result) -> list[SentenceRef] | None:
    """Sentences of the final evidence, possibly empty; None if the run selects no sentences.

    Sentences of earlier steps and of unfinished runs don't count.
    """
    steps = result["trajectory"]
    if not any(step["sentences"] for step in steps):
        return None
    return next((step["sentences"] for step in reversed(steps) if step["kind"] == "aggregate"), [])


def record_of(line: Mapping[str, Any]) -> Record:
    """The record of a line of `results.jsonl`."""
    return Record(
        variant=line["variant"],
        method=line["method"],
        id=line["id"],
        status=line["status"],
        error=line["error"]["kind"] if line.get("error") else "",
        metrics=dict(line["metrics"]),
        cost=COSTS.measure(line["cost"]),
        truncated=any(step["truncated"] for step in line["trajectory"]),
        fallback=any(step["fallback"] for step in line["trajectory"]),
        unsupported=line["status"] == "answered" and not line["evidence"] and bool(line.get("notes")),
    )
