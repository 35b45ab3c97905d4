"""Costs of a question, and aggregate figures of a variant, in the same kind of registry as the metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from hopgraph.evaluation.registry import Registry
from hopgraph.evaluation.statistics import Estimate
from inference.ledger import Cost

COSTS: Registry[Cost] = Registry()
"""Costs of a question, from its result's `cost`."""


class Price(TypedDict):
    """Price of a million tokens, in any currency."""

    prompt: float
    completion: float


@dataclass(frozen=True)
class Totals:
    """All results of a variant."""

    scores: Sequence[Mapping[str, float]]
    """The metrics of each question."""
    metrics: Mapping[str, Estimate]
    costs: Mapping[str, Estimate]
    price: Price | None

    @property
    def forgotten(self) -> tuple[float, float, int]:
        """Wrong answers among questions with all gold retrieved, the number of such questions, and of all questions."""
        rows = [row for row in self.scores if "all_gold_retrieved" in row and "em" in row]
        wrong = sum(row["all_gold_retrieved"] * (1 - row["em"]) for row in rows)
        return wrong, sum(row["all_gold_retrieved"] for row in rows), len(rows)


TOTALS: Registry[Totals] = Registry()
"""Figures of a variant that are not means over its questions."""


def _count(name: str, meaning: str, **about: Any) -> None:
    """Register a field of a result's cost."""

    def value(cost: Cost) -> float:
        return float(cost[name])  # type: ignore[literal-required]

    value.__doc__ = meaning
    about = {"unit": name, "source": "inference/ledger.py", **about}
    COSTS.register(name, of=lambda cost: (cost,), better="lower", **about)(value)


_count("calls", "Replies of the model.", places={"cost": 1, "comparison": 8})
_count(
    "repairs",
    "Calls made because the previous reply could not be used.",
    label="of these repairs",
    unit="calls",
    places={"cost": 2},
    optional=True,
)
_count("cached_calls", "Additional replies from the cache, at no cost.", unit="calls")
_count("prompt_tokens", "Tokens of the prompts.", unit="tokens")
_count("completion_tokens", "Tokens of the replies.", unit="tokens")


@COSTS.register(
    "tokens",
    of=lambda cost: (cost["prompt_tokens"], cost["completion_tokens"]),
    unit="tokens",
    better="lower",
    source="CompactRAG, Sec. 4.2",
    places={"cost": 4, "comparison": 7},
)
def _tokens(prompt: int, completion: int) -> float:
    """Prompts and replies together."""
    return float(prompt) + float(completion)


_count(
    "searches",
    "Queries searched.",
    source="PruneRAG, Sec. 4.2.2, Table 3",
    places={"cost": 3, "comparison": 9},
)
_count(
    "steps",
    "Rounds of searches; concurrent searches are one round.",
    unit="rounds",
    source="HANRAG, Sec. 5",
    places={"cost": 5},
)
_count("chain", "Longest sequence of model calls in which each depends on the previous one.", unit="calls")
_count(
    "seconds",
    "Time during which a call or a search of the question was in progress, concurrent ones counted once. Excludes "
    "waiting for the limit of calls in flight and for an unavailable endpoint. The index is opened and the encoder "
    "loaded before the first question; CompactRAG's small models are loaded during the first.",
    places={"cost": 6, "comparison": 10},
)


@TOTALS.register(
    "efr",
    of=lambda totals: totals.forgotten,
    label="EFR",
    better="lower",
    source="PruneRAG, Sec. 4.2.2, Table 1",
    places={"passages": 4, "report": 1},
)
def _efr(wrong: float, complete: float, questions: int) -> float | None:
    """Evidence forgetting rate: share of wrong answers among questions with all gold passages retrieved.

    PruneRAG's tables use this denominator; its Eq. 6 divides by all questions, which is `efr_all`.
    """
    return wrong / complete if complete else None


@TOTALS.register(
    "efr_all",
    of=lambda totals: totals.forgotten,
    label="of all",
    better="lower",
    source="PruneRAG, Sec. 4.2.2, Eq. 6",
    places={"passages": 5, "report": 2},
)
def _efr_all(wrong: float, complete: float, questions: int) -> float | None:
    """The wrong answers of `efr` as a share of all questions."""
    return wrong / questions if questions else None


def _by_kept_evidence(totals: Totals) -> tuple[list[bool], list[bool]]:
    """Whether each question's answer is right: of those whose evidence has all gold passages, and of the others."""
    rows = [row for row in totals.scores if "passage_recall" in row and "em" in row]
    complete = [bool(row["em"]) for row in rows if row["passage_recall"] == 1]
    return complete, [bool(row["em"]) for row in rows if row["passage_recall"] < 1]


@TOTALS.register(
    "mismatch_at_full_recall",
    of=_by_kept_evidence,
    label="wrong, all kept",
    better="lower",
    source="PRISM, App. A.2, Table 12",
    places={"passages": 10, "report": 4},
)
def _mismatch_at_full_recall(complete: Sequence[bool], partial: Sequence[bool]) -> float | None:
    """Share of the wrong answers whose evidence has all gold passages: answering errors, not retrieval errors.

    The caption of Table 12 reads as if the denominator were the questions with full recall; its figures are shares of
    the wrong answers, as the text says: for MuSiQue, 181 wrong answers, 84 of them among the 99 questions of Table 10.
    """
    wrong = complete.count(False) + partial.count(False)
    return complete.count(False) / wrong if wrong else None


@TOTALS.register(
    "match_at_partial_recall",
    of=_by_kept_evidence,
    label="right, gold missing",
    source="PRISM, App. A.2, Table 12",
    places={"passages": 11, "report": 5},
)
def _match_at_partial_recall(complete: Sequence[bool], partial: Sequence[bool]) -> float | None:
    """Share of the questions whose evidence lacks a gold passage that are answered correctly nevertheless."""
    return partial.count(True) / len(partial) if partial else None


def _recall_and_searches(totals: Totals) -> tuple[float, float] | None:
    recall = totals.metrics.get("retrieved_recall")
    return (recall["mean"], totals.costs["searches"]["mean"]) if recall else None


@TOTALS.register(
    "retrieval_efficiency",
    of=_recall_and_searches,
    label="per search",
    source="PruneRAG, Sec. 4.2.2, Table 3",
    places={"passages": 3, "report": 3},
)
def retrieval_efficiency(recall: float, searches: float) -> float | None:
    """Recall divided by searches: retrieval efficiency (RE).

    RE = mean recall / mean searches per question; None without a search. For several datasets the table gives the mean
    of their RE: 60.7/2.06, 47.4/3.40 and 23.2/3.39 give 16.7.
    """
    return recall / searches if searches else None


@TOTALS.register(
    "money",
    of=lambda totals: (totals.costs, totals.price) if totals.price else None,
    unit="any currency",
    better="lower",
    source="`--price`",
    places={"answers": 8},
    optional=True,
)
def _money(costs: Mapping[str, Estimate], price: Price) -> float:
    """Mean cost per question at `--price`."""
    prompt, completion = costs["prompt_tokens"]["mean"], costs["completion_tokens"]["mean"]
    return (prompt * price["prompt"] + completion * price["completion"]) / 1e6
