"""Metrics of a run's control flow: depth of its tree, reviews of its answers, its hop count.

They are computed from the result's tree and trajectory, for any method.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from operator import attrgetter

from hopgraph.evaluation.costs import TOTALS, Totals
from hopgraph.evaluation.data import Question
from hopgraph.evaluation.metrics import METRICS, Review, containment
from hopgraph.results import Result

_HOPS = re.compile(r"(\d+) hops? \((?:predicted|given)\)")
MAX_HOPS = 4
"""Largest hop count; larger ones count as this (PAR-RAG, Eq. 6)."""


def levels(result: Result) -> tuple[Sequence[int]] | None:
    """Depth of each node of the run's tree, from 1 for the root; None without a tree or depths."""
    found = [int(node["depth"]) for node in result.get("tree", []) if "depth" in node]
    return (found,) if found else None


def reviews(result: Result, question: Question) -> tuple[Sequence[Review]] | None:
    """The run's reviews of answers, checked against the gold answers of the steps; None without either.

    A review is a step `verify` with the verdict `accepted` or `rejected` of its parent's answer. The answer is right if
    it contains an answer of the gold decomposition or of the question, since the run's own steps can't be aligned with
    the gold steps. Steps without an answer and decisions of a person don't count.
    """
    parts = [part.answer for part in question.decomposition]
    if not question.answers or not (all(parts) if parts else question.hops == 1):
        return None
    answers = {step["id"]: step["answer"] for step in result["trajectory"] if step["kind"] == "answer"}
    found = [
        Review(step["verdict"] == "accepted", bool(containment(answer, [*parts, *question.answers])))
        for step in result["trajectory"]
        if step["kind"] == "verify"
        and step["verdict"] in ("accepted", "rejected")
        and (answer := answers.get(step["parent"], ""))
    ]
    return (found,) if found else None


def hop_counts(result: Result, question: Question) -> tuple[int, int] | None:
    """The hop count of the step `route`, and the question's, at most 4; None without either."""
    routed = [
        match for step in result["trajectory"] if step["kind"] == "route" if (match := _HOPS.match(step["answer"]))
    ]
    return (int(routed[0][1]), min(question.hops, MAX_HOPS)) if routed and question.hops else None


@METRICS.register(
    "tree_depth",
    of=attrgetter("levels"),
    label="depth",
    unit="levels",
    better="lower",
    source="PruneRAG, Sec. 4.6, Fig. 5",
    places={"answers": 8},
    optional=True,
)
def tree_depth(depths: Sequence[int]) -> float:
    """Deepest level of the tree of queries; the root is at 1."""
    return float(max(depths))


@METRICS.register(
    "reviews",
    of=attrgetter("reviews"),
    unit="answers",
    better="lower",
    source="PAR-RAG, App. A",
)
def review_count(made: Sequence[Review]) -> float:
    """Reviewed answers of steps whose correctness is known."""
    return float(len(made))


@METRICS.register("reviews_right", of=attrgetter("reviews"), unit="answers", source="PAR-RAG, App. A")
def reviews_right(made: Sequence[Review]) -> float:
    """Reviews that accepted a correct answer or rejected a wrong one."""
    return float(sum(review.accepted == review.right for review in made))


@METRICS.register(
    "hops_right",
    of=attrgetter("hops"),
    label="hops",
    source="PAR-RAG, Sec. 4.4.3, Fig. 5",
    places={"answers": 10},
    optional=True,
)
def hops_right(used: int, gold: int) -> float:
    """Questions with a correctly predicted hop count; with a fixed hop count, questions that have it."""
    return float(used == gold)


def answered_right(scores: Mapping[str, float]) -> float | None:
    """Whether a question's answer is correct, by the judge or else by EM; None without gold."""
    return scores.get("judged", scores.get("em"))


@TOTALS.register(
    "review_agreement",
    of=lambda totals: (totals.scores,),
    label="reviews right",
    source="PAR-RAG, App. A, Fig. 7",
    places={"answers": 9},
    optional=True,
)
def review_agreement(scores: Sequence[Mapping[str, float]]) -> float | None:
    """Share of the reviewed answers of all questions that were accepted and correct, or rejected and wrong.

    In the paper people say what is right; here the answers of the gold decomposition do.
    """
    made = sum(row.get("reviews", 0.0) for row in scores)
    return sum(row.get("reviews_right", 0.0) for row in scores) / made if made else None


def _at_wrong_hops(totals: Totals) -> tuple[list[float]]:
    rows = [row for row in totals.scores if row.get("hops_right") == 0]
    return ([right for row in rows if (right := answered_right(row)) is not None],)


@TOTALS.register(
    "right_at_wrong_hops",
    of=_at_wrong_hops,
    label="right, hops wrong",
    source="PAR-RAG, Fig. 5, Table 4",
    places={"answers": 11},
    optional=True,
)
def right_at_wrong_hops(right: Sequence[float]) -> float | None:
    """Share of the questions with a wrong hop count that are answered correctly, by the judge or else by EM."""
    return sum(right) / len(right) if right else None
