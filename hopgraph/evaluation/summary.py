"""Summary of a run: means, intervals, groups, and each variant's comparison with the first."""

from __future__ import annotations

from collections import ChainMap, Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NotRequired, cast

from typing_extensions import TypedDict

from hopgraph.evaluation.costs import COSTS, TOTALS, Price, Totals
from hopgraph.evaluation.data import Question
from hopgraph.evaluation.metrics import METRICS
from hopgraph.evaluation.registry import Metric
from hopgraph.evaluation.scoring import Record
from hopgraph.evaluation.statistics import Comparison, Estimate, compare, estimate

ALL_METRICS: Mapping[str, Metric[Any]] = ChainMap[str, Metric[Any]](TOTALS, COSTS, METRICS)
"""Every registered metric, by name: metrics, costs, totals."""


class Group(TypedDict):
    """Questions of one type or hop count."""

    n: int
    failed: int
    em: float | None
    f1: float | None
    recall: float | None
    """Recall of gold passages among all retrieved."""
    wrong_despite_full_recall: int
    """All gold passages were retrieved, and the answer is wrong (PRISM, App. A.2): an answering error."""
    right_despite_missing_gold: int
    share_of_incomplete: float | None
    """Of the variant's questions whose evidence lacks a gold passage, the share in this group (PRISM, Tables 8-11)."""
    share_of_wrong: float | None
    """Of its wrong answers, the share in this group."""
    right_at_wrong_hops: float | None
    """Of the group's questions whose hop count was predicted wrong, the share answered right (PAR-RAG, Table 4)."""


class VariantSummary(TypedDict):
    """One method with one set of settings over all questions."""

    variant: str
    method: str
    n: int
    failed: int
    failures: dict[str, int]
    """Failed questions by the kind of their error. They count as wrong in every mean."""
    unanswerable: int
    unjudged: int
    """Answers not judged yet; with any, there is no mean of `judged`."""
    truncated: int
    """Questions with passages left out to fit a prompt."""
    fallbacks: int
    """Questions with a fallback for unusable model output."""
    unsupported: int
    """Answers without evidence, of methods that search."""
    metrics: dict[str, Estimate]
    costs: dict[str, Estimate]
    efr: float | None
    efr_all: float | None
    retrieval_efficiency: float | None
    money: float | None
    """Mean cost of a question, at the price given."""
    mismatch_at_full_recall: float | None
    match_at_partial_recall: float | None
    review_agreement: float | None
    right_at_wrong_hops: float | None
    """This and the seven above are `TOTALS`."""
    types: dict[str, Group]
    hops: dict[str, Group]


class Pair(TypedDict):
    """Two variants over the same questions."""

    first: str
    second: str
    metrics: dict[str, Comparison]


class Summary(TypedDict):
    """All variants of a run."""

    variants: list[VariantSummary]
    comparisons: list[Pair]
    """Every variant with the first one."""
    run: NotRequired[dict[str, Any]]
    papers: NotRequired[list[Any]]
    """Tables of the papers, with the figures of both (`papers.PaperTable`)."""
    gate: NotRequired[list[Any]]
    """Checks of the quality gate (`gate.Check`)."""


def summarise(
    records: Sequence[Record],
    questions: Mapping[str, Question],
    variants: Sequence[str],
    price: Price | None = None,
) -> Summary:
    """Means, intervals, error tables, and every variant's paired comparison with the first.

    Args:
        records: The results so far.
        questions: By id.
        variants: Names of the variants, in order.
        price: Price of tokens.
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


def value_of(variant: VariantSummary, metric: Metric[Any]) -> Estimate | float | None:
    """A variant's value of a metric: an estimate, or of `TOTALS` a number; None without one."""
    found: dict[str, Any] = {**variant, **variant["metrics"], **variant["costs"]}
    return cast("Estimate | float | None", found.get(metric.name))


def _leave_out_half_judged(records: dict[str, Record]) -> int:
    """Remove all verdicts while some are missing; returns the number missing."""
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
) -> VariantSummary:
    if not _searches(records):  # a method without retrieval has no recall, rather than a bad one
        records = [{**record, "metrics": _without_retrieval(record["metrics"])} for record in records]
    names = dict.fromkeys(metric for record in records for metric in record["metrics"])
    costs = {cost: _known(estimate([record["cost"][cost] for record in records])) for cost in COSTS}
    scores = {metric: _known(estimate(_values(metric, records, questions))) for metric in names}
    totals = Totals([record["metrics"] for record in records], scores, costs, price)
    found = {
        "variant": name,
        "method": records[0]["method"],
        "n": len(records),
        "failed": sum(record["status"] == "failed" for record in records),
        "failures": dict(Counter(record["error"] for record in records if record["status"] == "failed")),
        "unanswerable": sum(record["status"] == "unanswerable" for record in records),
        "unjudged": unjudged,
        "truncated": sum(record["truncated"] for record in records),
        "fallbacks": sum(record["fallback"] for record in records),
        "unsupported": sum(record["unsupported"] for record in records),
        "metrics": scores,
        "costs": costs,
        **{key: metric.measure(totals) for key, metric in TOTALS.items()},
        "types": _groups(records, questions, lambda question: question.type),
        "hops": _groups(records, questions, lambda question: "" if question.hops is None else str(question.hops)),
    }
    return cast(VariantSummary, found)


def _searches(records: Iterable[Record]) -> bool:
    return any(record["cost"]["searches"] or record["metrics"].get("retrieved_recall") for record in records)


def _without_retrieval(scores: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in scores.items() if name not in METRICS or not METRICS[name].searching}


def _values(name: str, records: Sequence[Record], questions: Mapping[str, Question]) -> list[float]:
    """A metric's values; 0 for a question without a value where the metric expects one."""
    metric = METRICS.get(name)
    return [
        record["metrics"].get(name, 0.0)
        for record in records
        if name in record["metrics"] or (metric and metric.expected(questions[record["id"]]))
    ]


def _groups(
    records: Sequence[Record], questions: Mapping[str, Question], group_of: Callable[[Question], str]
) -> dict[str, Group]:
    found: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if name := group_of(questions[record["id"]]):
            found[name].append(record)
    return {name: _group(found[name], records) for name in sorted(found)}


def _incomplete(record: Record) -> bool:
    return record["metrics"].get("passage_recall", 1.0) < 1


def _wrong(record: Record) -> bool:
    return record["metrics"].get("em", 1.0) < 1


def _share(of: Callable[[Record], bool], part: Sequence[Record], whole: Sequence[Record]) -> float | None:
    count = sum(map(of, whole))
    return sum(map(of, part)) / count if count else None


def _group(records: Sequence[Record], every: Sequence[Record]) -> Group:
    """The figures of a group, of `every` record of the variant."""

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
        share_of_incomplete=_share(_incomplete, records, every),
        share_of_wrong=_share(_wrong, records, every),
        right_at_wrong_hops=TOTALS["right_at_wrong_hops"].measure(
            Totals([r["metrics"] for r in records], {}, {}, None)
        ),
    )


def _pair(first: str, second: str, by_variant: Mapping[str, Mapping[str, Record]]) -> Pair:
    """Comparison over the questions that both have; without retrieval metrics unless both search."""
    one, two = by_variant[first], by_variant[second]
    searching = _searches(one.values()) and _searches(two.values())
    found: dict[str, Comparison] = {}
    compared: list[Metric[Any]] = [*METRICS.table("comparison"), *COSTS.table("comparison")]
    for metric in compared:
        field: Literal["metrics", "cost"] = "cost" if metric.name in COSTS else "metrics"
        both = [row for row in _both(one, two) if all(metric.name in record[field] for record in row)]
        gap = compare([row[0][field][metric.name] for row in both], [row[1][field][metric.name] for row in both])
        if gap is not None and (searching or not metric.searching):
            found[metric.name] = gap
    return Pair(first=first, second=second, metrics=found)


def _both(one: Mapping[str, Record], two: Mapping[str, Record]) -> list[tuple[Record, Record]]:
    return [(one[key], two[key]) for key in one if key in two]


def _known(value: Estimate | None) -> Estimate:
    if value is None:  # there is no variant without records
        raise ValueError("no values")
    return value
