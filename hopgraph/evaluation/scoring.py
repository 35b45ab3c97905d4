"""One result against its question's gold answer, and all results of a run against each other."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NotRequired

from typing_extensions import TypedDict

from hopgraph.evaluation import metrics
from hopgraph.evaluation.data import Question
from hopgraph.evaluation.gold import counts_as, gold_of
from hopgraph.evaluation.statistics import Comparison, Estimate, compare, estimate
from hopgraph.results import Result
from nodes.kit.state import SentenceRef
from stores.passages import Passage

__all__ = [
    "COSTS",
    "Price",
    "Record",
    "Scored",
    "Summary",
    "Variant",
    "named_sentences",
    "record_of",
    "score",
    "summarise",
]

COSTS = (
    "calls", "repairs", "cached_calls", "prompt_tokens", "completion_tokens", "tokens", "searches", "steps", "chain",
    "seconds",
)  # fmt: skip
"""Costs of a question, as `Cost` has them; `tokens` are prompt and completion together."""


class Scored(Result):
    """A line of `results.jsonl`: a result with what it is compared with."""

    variant: str
    """What was run: the method's id, and in an ablation or a comparison of prompts what is different."""
    answers: list[str]
    """The gold answers."""
    metrics: dict[str, float]
    """See `score`; empty where no gold is known."""


class Record(TypedDict):
    """What a summary needs to know of a line of `results.jsonl`."""

    variant: str
    method: str
    id: str
    status: str
    error: str
    """Kind of the error that it failed with, or ""."""
    metrics: dict[str, float]
    cost: dict[str, float]
    truncated: bool
    fallback: bool
    unsupported: bool
    """Answered by a method that searches, without a passage that supports the answer."""


class Price(TypedDict):
    """What a million tokens cost, in any currency."""

    prompt: float
    completion: float


class Group(TypedDict):
    """Questions of one type or hop count."""

    n: int
    failed: int
    em: float | None
    f1: float | None
    recall: float | None
    """Passage recall over all that was retrieved."""
    wrong_despite_full_recall: int
    """All gold passages were retrieved, and the answer is wrong (PRISM, App. A.2): the answer's fault."""
    right_despite_missing_gold: int


class Variant(TypedDict):
    """One method with one set of settings over all questions."""

    variant: str
    method: str
    n: int
    failed: int
    failures: dict[str, int]
    """Failed questions by the kind of their error. They count as wrong in every mean."""
    unanswerable: int
    unjudged: int
    """Answers that the judge has not come to yet; there is no mean of `judged` as long as there are any."""
    truncated: int
    """Questions in which a prompt did not fit and passages were left out."""
    fallbacks: int
    """Questions in which a model's output could not be used and something else was done."""
    unsupported: int
    """Answers without evidence, of methods that search."""
    metrics: dict[str, Estimate]
    costs: dict[str, Estimate]
    efr: float | None
    """Evidence forgetting rate: wrong answers among the questions whose gold passages were all retrieved.

    PruneRAG's tables have this denominator; its Eq. 6 says all questions, which is `efr_all`."""
    efr_all: float | None
    retrieval_efficiency: float | None
    money: float | None
    """Mean cost of a question, at the price given."""
    types: dict[str, Group]
    hops: dict[str, Group]


class Pair(TypedDict):
    """Two variants over the same questions."""

    first: str
    second: str
    metrics: dict[str, Comparison]


class Summary(TypedDict):
    """All variants of a run."""

    variants: list[Variant]
    comparisons: list[Pair]
    """Every variant with the first one."""
    run: NotRequired[dict[str, Any]]


def score(
    result: Result,
    question: Question,
    passages: Mapping[str, Passage],
    *,
    starts: Mapping[str, int] | None = None,
) -> dict[str, float]:
    """Metrics of one result: those for which the question has gold. All are 0 to 1.

    - `em`, `f1`, `accuracy` (containment), `partial_match`: the answer. Where the right answer is that there is none,
      all are 1 if the status is `unanswerable`. A failed run is wrong.
    - `entity_accuracy`: answers of compound questions.
    - `passage_precision`, `passage_recall`, `passage_f1`: the evidence that the answer rests on (PRISM).
    - `retrieved_recall`, `all_gold_retrieved`: all that was retrieved in any round (PruneRAG).
    - `fact_precision`, `fact_recall`, `fact_f1`: evidence sentences, where the method names sentences (PRISM, Table 2).

    Args:
        result: The result.
        question: Its question, as the run knows its gold (`gold.as_known`).
        passages: The passages it mentions, by id; a cut one counts as its article.
        starts: Where the sentences of cut passages begin in their articles, by passage id; gold counts in articles.
    """
    scores: dict[str, float] = {}
    prediction = result["answer"] if result["status"] == "answered" else ""
    if question.answers or not question.answerable:
        abstained = not question.answerable and result["status"] == "unanswerable"
        scores |= {
            name: 1.0 if abstained else metric(prediction, question.answers)
            for name, metric in (
                ("em", metrics.exact_match),
                ("f1", metrics.token_f1),
                ("accuracy", metrics.containment),
                ("partial_match", metrics.partial_match),
            )
        }
    if question.entities:
        scores["entity_accuracy"] = metrics.entity_accuracy(prediction, question.entities)
    return scores | _retrieval(result, question, passages, starts or {})


def _retrieval(
    result: Result, question: Question, passages: Mapping[str, Passage], starts: Mapping[str, int]
) -> dict[str, float]:
    gold = gold_of(question)
    if not gold:
        return {}

    def units(ids: Iterable[str]) -> set[str]:
        return {counts_as(key, question, passages) for key in ids}

    kept = metrics.overlap(units(result["evidence"]), gold)
    retrieved = units(result["retrieved"])
    scores = {f"passage_{name}": float(value) for name, value in kept.items()}  # type: ignore[arg-type]
    scores["retrieved_recall"] = metrics.overlap(retrieved, gold)["recall"]
    scores["all_gold_retrieved"] = metrics.all_retrieved(retrieved, gold)
    sentences = named_sentences(result)
    if question.gold_sentences and sentences is not None:
        right = {(metrics.normalise_title(title), at) for title, at in question.gold_sentences}

        def as_fact(key: str, at: int) -> tuple[str, int]:
            # Facts name their passage by its title, which one that is not gold may have, too.
            unit = counts_as(key, question, passages)
            return metrics.normalise_title(passages[key].title) if unit in gold else unit, starts.get(key, 0) + at

        facts = metrics.overlap({as_fact(key, at) for key, at in sentences if key in passages}, right)
        scores |= {f"fact_{name}": float(value) for name, value in facts.items()}  # type: ignore[arg-type]
    return scores


def named_sentences(result: Result) -> list[SentenceRef] | None:
    """The sentences on which the final evidence was settled, perhaps none; None where a run names passages alone.

    Earlier steps name sentences, too, but what was thrown away since is no evidence, nor is that of a run cut short.
    """
    steps = result["trajectory"]
    if not any(step["sentences"] for step in steps):
        return None
    return next((step["sentences"] for step in reversed(steps) if step["kind"] == "aggregate"), [])


def record_of(line: Mapping[str, Any]) -> Record:
    """What a summary needs of a line of `results.jsonl`."""
    cost = {name: float(value) for name, value in line["cost"].items()}
    cost["tokens"] = cost["prompt_tokens"] + cost["completion_tokens"]
    return Record(
        variant=line["variant"],
        method=line["method"],
        id=line["id"],
        status=line["status"],
        error=line["error"]["kind"] if line.get("error") else "",
        metrics=dict(line["metrics"]),
        cost=cost,
        truncated=any(step["truncated"] for step in line["trajectory"]),
        fallback=any(step["fallback"] for step in line["trajectory"]),
        unsupported=line["status"] == "answered" and not line["evidence"] and bool(line.get("notes")),
    )


def summarise(
    records: Sequence[Record],
    questions: Mapping[str, Question],
    variants: Sequence[str],
    price: Price | None = None,
) -> Summary:
    """Means, intervals, error tables, and every variant's paired comparison with the first.

    Args:
        records: Of any questions and variants; those that are not there yet are left out of the means.
        questions: By id.
        variants: Their order.
        price: What tokens cost.
    """
    by_variant: dict[str, dict[str, Record]] = defaultdict(dict)
    for record in records:
        by_variant[record["variant"]][record["id"]] = record
    present = [name for name in variants if by_variant[name]]
    unjudged = {name: _leave_out_half_judged(by_variant[name]) for name in present}
    return Summary(
        variants=[
            _variant(name, list(by_variant[name].values()), questions, price, unjudged[name]) for name in present
        ],
        comparisons=[_pair(present[0], other, by_variant) for other in present[1:]],
    )


def _leave_out_half_judged(records: dict[str, Record]) -> int:
    """Take the verdicts out as long as some are to come, and say how many: what needs no judge has its own at once."""
    judged = sum("judged" in record["metrics"] for record in records.values())
    unjudged = sum("em" in record["metrics"] for record in records.values()) - judged
    if not judged or not unjudged:
        return 0
    for key, record in records.items():
        records[key] = {**record, "metrics": {k: v for k, v in record["metrics"].items() if k != "judged"}}
    return unjudged


def _variant(
    name: str,
    records: Sequence[Record],
    questions: Mapping[str, Question],
    price: Price | None,
    unjudged: int,
) -> Variant:
    if not _searches(records):  # a method without retrieval has no recall, rather than a bad one
        records = [{**record, "metrics": _answers_only(record["metrics"])} for record in records]
    # A failed run named no sentences; of a method that names them it counts as having found none.
    names = list(dict.fromkeys(metric for record in records for metric in record["metrics"]))
    gold = [record for record in records if "all_gold_retrieved" in record["metrics"] and "em" in record["metrics"]]
    forgotten = sum(record["metrics"]["all_gold_retrieved"] * (1 - record["metrics"]["em"]) for record in gold)
    complete = sum(record["metrics"]["all_gold_retrieved"] for record in gold)
    costs = {cost: _known(estimate([record["cost"][cost] for record in records])) for cost in COSTS}
    scores = {metric: _known(estimate(_values(metric, records, questions))) for metric in names}
    recall = scores.get("retrieved_recall")
    return Variant(
        variant=name,
        method=records[0]["method"],
        n=len(records),
        failed=sum(record["status"] == "failed" for record in records),
        failures=dict(Counter(record["error"] for record in records if record["status"] == "failed")),
        unanswerable=sum(record["status"] == "unanswerable" for record in records),
        unjudged=unjudged,
        truncated=sum(record["truncated"] for record in records),
        fallbacks=sum(record["fallback"] for record in records),
        unsupported=sum(record["unsupported"] for record in records),
        metrics=scores,
        costs=costs,
        efr=forgotten / complete if complete else None,
        efr_all=forgotten / len(gold) if gold else None,
        retrieval_efficiency=(
            metrics.retrieval_efficiency(recall["mean"], costs["searches"]["mean"]) if recall else None
        ),
        money=(
            (
                costs["prompt_tokens"]["mean"] * price["prompt"]
                + costs["completion_tokens"]["mean"] * price["completion"]
            )
            / 1e6
            if price
            else None
        ),
        types=_groups(records, questions, lambda question: question.type),
        hops=_groups(records, questions, lambda question: "" if question.hops is None else str(question.hops)),
    )


def _searches(records: Iterable[Record]) -> bool:
    return any(record["cost"]["searches"] or record["metrics"].get("retrieved_recall") for record in records)


def _answers_only(scores: Mapping[str, float]) -> dict[str, float]:
    return {
        name: value for name, value in scores.items() if not name.startswith(("passage_", "retrieved_", "all_gold"))
    }


def _values(metric: str, records: Sequence[Record], questions: Mapping[str, Question]) -> list[float]:
    """A metric's values; a question with gold facts whose run named no sentence has found none of them."""
    counted = (
        [record for record in records if questions[record["id"]].gold_sentences]
        if metric.startswith("fact_")
        else [record for record in records if metric in record["metrics"]]
    )
    return [record["metrics"].get(metric, 0.0) for record in counted]


def _groups(
    records: Sequence[Record], questions: Mapping[str, Question], group_of: Callable[[Question], str]
) -> dict[str, Group]:
    found: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if name := group_of(questions[record["id"]]):
            found[name].append(record)
    return {name: _group(found[name]) for name in sorted(found)}


def _group(records: Sequence[Record]) -> Group:
    def mean(metric: str) -> float | None:
        values = [record["metrics"][metric] for record in records if metric in record["metrics"]]
        return sum(values) / len(values) if values else None

    both = [r["metrics"] for r in records if "em" in r["metrics"] and "all_gold_retrieved" in r["metrics"]]
    return Group(
        n=len(records),
        failed=sum(record["status"] == "failed" for record in records),
        em=mean("em"),
        f1=mean("f1"),
        recall=mean("retrieved_recall"),
        wrong_despite_full_recall=sum(bool(m["all_gold_retrieved"]) and not m["em"] for m in both),
        right_despite_missing_gold=sum(bool(m["em"]) and not m["all_gold_retrieved"] for m in both),
    )


def _pair(first: str, second: str, by_variant: Mapping[str, Mapping[str, Record]]) -> Pair:
    """The comparison over the questions that both have; a method that searches nothing has no recall to compare."""
    one, two = by_variant[first], by_variant[second]
    measured = ["em", "f1", "accuracy", "entity_accuracy", "judged"]
    measured += ["retrieved_recall"] * (_searches(one.values()) and _searches(two.values()))
    shared = [key for key in one if key in two]
    found: dict[str, Comparison] = {}
    for metric in measured:
        both = [key for key in shared if metric in one[key]["metrics"] and metric in two[key]["metrics"]]
        gap = compare([one[key]["metrics"][metric] for key in both], [two[key]["metrics"][metric] for key in both])
        if gap is not None:
            found[metric] = gap
    for cost in ("tokens", "calls", "searches", "seconds"):
        gap = compare([one[key]["cost"][cost] for key in shared], [two[key]["cost"][cost] for key in shared])
        if gap is not None:
            found[cost] = gap
    return Pair(first=first, second=second, metrics=found)


def _known(value: Estimate | None) -> Estimate:
    if value is None:  # there is no variant without records
        raise ValueError("no values")
    return value
