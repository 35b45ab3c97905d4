"""Metrics of one result, each a registered function; tables, reports, exports and docs list them.

All but counts are shares, 0 to 1. A function's first docstring paragraph is its explanation in docs/evaluation.md.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Collection, Hashable, Sequence, Set
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from typing_extensions import TypedDict

from hopgraph.evaluation.registry import Registry

if TYPE_CHECKING:
    from hopgraph.evaluation.data import Question

Unit = TypeVar("Unit", bound=Hashable)
Fact = tuple[str, int]
"""A sentence: the normalised title of its passage (the id of a passage that is not gold) and its index from 0."""
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Review(NamedTuple):
    """A review of an answer to a step of a run."""

    accepted: bool
    right: bool
    """Whether the answer is right."""


@dataclass(frozen=True)
class Outcome:
    """Arguments of the metrics: a result and its question's gold; None without such gold."""

    answer: tuple[str, Sequence[str]] | None = None
    """Prediction ("" if the run failed) and gold answers."""
    entities: tuple[str, Sequence[Sequence[str]]] | None = None
    """Prediction, and the answers of a compound question, each with its aliases."""
    evidence: tuple[Set[str], Set[str]] | None = None
    """Passages of the final evidence, and gold passages."""
    retrieved: tuple[Set[str], Set[str]] | None = None
    """Passages that any search returned, and gold passages."""
    facts: tuple[Set[Fact], Set[Fact]] | None = None
    """Evidence sentences, for methods that select sentences, and gold ones."""
    levels: tuple[Sequence[int]] | None = None
    """Depths of the nodes of the run's tree."""
    reviews: tuple[Sequence[Review]] | None = None
    """Reviews of answers to steps."""
    hops: tuple[int, int] | None = None
    """The run's hop count, and the question's."""


METRICS: Registry[Outcome] = Registry()
"""By name. Only `judged` needs more than the result: a judge's verdict (`evaluation.judge`)."""


class Overlap(TypedDict):
    """Overlap of a found set with the gold set."""

    precision: float
    recall: float
    f1: float


def normalise(text: str) -> str:
    """An answer normalised for comparison: lower case, without ASCII punctuation, articles and extra spaces.

    As in SQuAD's official evaluation (Rajpurkar et al. 2016), which all the papers use.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


_SQUAD = "SQuAD (Rajpurkar et al. 2016)"


@METRICS.register(
    "em",
    of=attrgetter("answer"),
    label="EM",
    source=_SQUAD,
    places={"answers": 1, "comparison": 1},
    exported={"flashrag": "em"},
)
def exact_match(prediction: str, answers: Sequence[str]) -> float:
    """Answers equal to a gold answer after normalisation (case, punctuation, articles, spaces); for an unanswerable
    question, abstentions.

    1 or 0. An empty prediction is wrong, even if a gold answer is empty after normalisation.
    """
    return float(bool(prediction.strip()) and any(normalise(prediction) == normalise(answer) for answer in answers))


@METRICS.register(
    "f1",
    of=attrgetter("answer"),
    label="F1",
    source=_SQUAD,
    places={"answers": 2, "comparison": 2},
    exported={"flashrag": "f1"},
)
def token_f1(prediction: str, answers: Sequence[str]) -> float:
    """Token overlap of the answer with the gold answer: harmonic mean of precision and recall.

    Tokens are the words of the normalised texts, repeats counted; the best of several gold answers counts (SQuAD). If a
    text is empty after normalisation, it is the exact match (SQuAD 2.0). HotpotQA's script also sets it to 0 if either
    text is `yes`, `no` or `noanswer` and the other differs; we don't, to have one definition for all datasets.
    """
    return max((_f1(prediction, answer) for answer in answers), default=0.0) if prediction.strip() else 0.0


def _f1(prediction: str, answer: str) -> float:
    found, right = normalise(prediction).split(), normalise(answer).split()
    if not found or not right:
        return float(found == right)
    shared = sum((Counter(found) & Counter(right)).values())
    return 2 * shared / (len(found) + len(right))


@METRICS.register(
    "accuracy",
    of=attrgetter("answer"),
    label="acc",
    source="HANRAG, Sec. 6; Mallen et al. 2023",
    places={"answers": 3, "comparison": 3},
    exported={"flashrag": "acc"},
)
def containment(prediction: str, answers: Sequence[str]) -> float:
    """Answers that contain a gold answer as whole words.

    1 or 0. Both are normalised: `art` is not contained in `Bartók`.
    """
    return float(any(_stands_in(answer, prediction) for answer in answers))


def _stands_in(answer: str, text: str) -> bool:
    wanted = normalise(answer)
    return bool(wanted) and f" {wanted} " in f" {normalise(text)} "


@METRICS.register(
    "partial_match",
    of=attrgetter("answer"),
    label="PMA",
    source="PRISM, App. A.1, Table 6 (PMA)",
    places={"answers": 4},
)
def partial_match(prediction: str, answers: Sequence[str]) -> float:
    """Answers that contain a gold answer or are contained in one.

    1 or 0. The paper names the metric without defining it; this is the usual definition.
    """
    return float(any(_stands_in(a, prediction) or _stands_in(prediction, a) for a in answers))


@METRICS.register(
    "entity_accuracy",
    of=attrgetter("entities"),
    label="entities",
    source="HANRAG, Sec. 6",
    places={"answers": 4, "comparison": 4},
    optional=True,
)
def entity_accuracy(prediction: str, entities: Sequence[Sequence[str]]) -> float:
    """Share of a compound question's answers that the prediction contains.

    The ground truth is split into its entities; an entity counts if any of its aliases occurs in the prediction.
    """
    return sum(containment(prediction, names) for names in entities) / len(entities) if entities else 0.0


def normalise_title(title: str) -> str:
    """A title normalised for comparison: NFKC, case-folded, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", title).casefold().split())


def overlap(found: Collection[Unit], gold: Collection[Unit]) -> Overlap:
    """Precision, recall and F1 of a set of passages or facts (sentences).

    PRISM, Sec. 3.2: precision is the share of the found items that are gold, recall the share of gold items found. The
    precision of an empty set is 0.
    """
    shared = len(set(found) & set(gold))
    precision = shared / len(set(found)) if found else 0.0
    recall = shared / len(set(gold)) if gold else 0.0
    return Overlap(precision=precision, recall=recall, f1=2 * shared / ((len(set(found)) + len(set(gold))) or 1))


def _overlap(name: str, part: Literal["precision", "recall", "f1"], meaning: str, **about: Any) -> None:
    """Register one value of `overlap` as a metric."""

    def measure(found: Set[Unit], gold: Set[Unit]) -> float:
        return overlap(found, gold)[part]

    measure.__doc__ = meaning
    METRICS.register(name, **about)(measure)


_kept = {"of": attrgetter("evidence"), "source": "PRISM, Sec. 3.2"}
_overlap(
    "passage_precision",
    "precision",
    "Share of the final evidence's passages that are gold.",
    label="kept P",
    places={"passages": 6},
    **_kept,
)
_overlap(
    "passage_recall",
    "recall",
    "Share of the gold passages that are in the final evidence.",
    label="kept R",
    places={"passages": 7},
    **_kept,
)
_overlap(
    "passage_f1",
    "f1",
    "Harmonic mean of `kept P` and `kept R`.",
    label="kept F1",
    places={"passages": 8},
    **_kept,
)


@METRICS.register(
    "passages_kept",
    of=attrgetter("evidence"),
    label="kept",
    unit="passages",
    better="lower",
    source="PRISM, Sec. 3.2, Table 5",
    places={"passages": 9},
)
def passages_kept(found: Set[str], gold: Set[str]) -> float:
    """Passages of the final evidence, parts of one article counted once."""
    return float(len(found))


_overlap(
    "retrieved_recall",
    "recall",
    "Share of the gold passages that any search of the run returned.",
    of=attrgetter("retrieved"),
    label="recall",
    source="PruneRAG, Sec. 4.2.2, Table 3",
    places={"answers": 6, "passages": 1, "comparison": 6},
)


@METRICS.register(
    "all_gold_retrieved",
    of=attrgetter("retrieved"),
    label="all",
    source="PruneRAG, Sec. 4.2.2, Eq. 6",
    places={"passages": 2},
)
def all_retrieved(found: Collection[Unit], gold: Collection[Unit]) -> float:
    """Questions with all gold passages retrieved.

    1 if all gold passages were retrieved (Eq. 6: G is a subset of d), else 0.
    """
    return float(set(gold) <= set(found))


def _has_facts(question: Question) -> bool:
    """A failed run of a method that selects sentences counts as having selected none."""
    return bool(question.gold_sentences)


_facts = {"of": attrgetter("facts"), "source": "PRISM, Table 2", "expected": _has_facts}
_overlap(
    "fact_precision",
    "precision",
    "Share of the evidence sentences that are supporting facts, for methods that select sentences.",
    **_facts,
)
_overlap(
    "fact_recall",
    "recall",
    "Share of the supporting facts that are evidence sentences, for methods that select sentences.",
    **_facts,
)
_overlap(
    "fact_f1",
    "f1",
    "F1 of the evidence sentences against the supporting facts, for methods that select sentences.",
    label="fact F1",
    places={"answers": 7},
    optional=True,
    **_facts,
)


@METRICS.register(
    "judged",
    of=lambda outcome: None,
    source="CompactRAG, Sec. 4.2, App. B; PAR-RAG, Sec. 4.2",
    places={"answers": 5, "comparison": 5},
    optional=True,
)
def _judged(verdict: float) -> float:
    """Answers judged correct by a model (`--judge`)."""
    return verdict
