"""Metrics of one result, each a registered function; tables, reports, exports and docs list them.

All but counts are shares, 0 to 1. A function's first paragraph is its explanation in docs/evaluation.md.
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

__all__ = [
    "METRICS",
    "Outcome",
    "Overlap",
    "Review",
    "all_retrieved",
    "containment",
    "entity_accuracy",
    "exact_match",
    "normalise",
    "normalise_title",
    "overlap",
    "partial_match",
    "passages_kept",
    "token_f1",
]

Unit = TypeVar("Unit", bound=Hashable)
Fact = tuple[str, int]
"""A sentence: its passage's normalised title, or the id of one without gold, and its index from 0."""
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Review(NamedTuple):
    """A review of an answer to a step of a run."""

    accepted: bool
    right: bool
    """Whether the answer is right."""


@dataclass(frozen=True)
class Outcome:
    """Arguments of the metrics: a result and its question's gold. None: the question has no such gold."""

    answer: tuple[str, Sequence[str]] | None = None
    """Prediction, and the right answers. A prediction is "" if the run failed."""
    entities: tuple[str, Sequence[Sequence[str]]] | None = None
    """Prediction, and the answers of a compound question, each with its wordings."""
    evidence: tuple[Set[str], Set[str]] | None = None
    """Passages that the answer rests on, and gold passages."""
    retrieved: tuple[Set[str], Set[str]] | None = None
    """Passages that any search returned, and gold passages."""
    facts: tuple[Set[Fact], Set[Fact]] | None = None
    """Evidence sentences, of a method that names them, and gold ones."""
    levels: tuple[Sequence[int]] | None = None
    """Depths of the nodes of the run's tree."""
    reviews: tuple[Sequence[Review]] | None = None
    """Reviews of answers to steps."""
    hops: tuple[int, int] | None = None
    """The hop count that the run worked with, and the question's."""


METRICS: Registry[Outcome] = Registry()
"""By name. `judged` is the only one that takes more than the result: a judge's verdict (`evaluation.judge`)."""


class Overlap(TypedDict):
    """A found set against the gold set."""

    precision: float
    recall: float
    f1: float


def normalise(text: str) -> str:
    """An answer normalised for comparison: lower case, without ASCII punctuation, articles and extra spaces.

    SQuAD's official evaluation (Rajpurkar et al. 2016), which all of the papers use.
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
    """Answers that are one of the right wordings, without regard to case, punctuation, articles and space; where there
    is no answer, those that say so.

    1 or 0. An empty prediction is wrong, even where an answer is nothing but articles and signs.
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
    """Words that the answer shares with the right one, repeats counted: harmonic mean of precision and recall.

    Words are those of the normalised texts; of several answers the best counts (SQuAD). Where normalising leaves
    nothing of one of them it is the exact match (SQuAD 2.0). HotpotQA's script adds that `yes`, `no` and `noanswer`
    share no words with a longer text; we do not, so that one definition serves all datasets.
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
    """Answers that contain a right one, in whole words.

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
    """Answers that contain a right one or are contained in one.

    1 or 0. The paper names the metric and does not define it; this is the usual reading.
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
    """Of the answers of a compound question, the share that is contained.

    The ground truth is split into its entities, and each that occurs in the prediction in one of its wordings counts.
    """
    return sum(containment(prediction, names) for names in entities) / len(entities) if entities else 0.0


def normalise_title(title: str) -> str:
    """A title normalised for comparison: NFKC, case-folded, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", title).casefold().split())


def overlap(found: Collection[Unit], gold: Collection[Unit]) -> Overlap:
    """Precision, recall and their harmonic mean of sets: of passages, or of facts (sentences).

    PRISM, Sec. 3.2: precision is the share of what was found that is gold, recall the share of gold that was found.
    Nothing found has precision 0.
    """
    shared = len(set(found) & set(gold))
    precision = shared / len(set(found)) if found else 0.0
    recall = shared / len(set(gold)) if gold else 0.0
    return Overlap(precision=precision, recall=recall, f1=2 * shared / ((len(set(found)) + len(set(gold))) or 1))


def _overlap(name: str, part: Literal["precision", "recall", "f1"], meaning: str, **about: Any) -> None:
    """Register one figure of the `overlap` of found and gold units."""

    def measure(found: Set[Unit], gold: Set[Unit]) -> float:
        return overlap(found, gold)[part]

    measure.__doc__ = meaning
    METRICS.register(name, **about)(measure)


_kept = {"of": attrgetter("evidence"), "source": "PRISM, Sec. 3.2"}
_overlap(
    "passage_precision",
    "precision",
    "Of the passages that the answer rests on, the share that is gold.",
    label="kept P",
    places={"passages": 6},
    **_kept,
)
_overlap(
    "passage_recall",
    "recall",
    "Of the gold passages, the share that the answer rests on.",
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
    """Passages that the answer rests on, parts of one article counted once."""
    return float(len(found))


_overlap(
    "retrieved_recall",
    "recall",
    "Share of the gold passages that any search of the run found.",
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
    """Questions whose gold passages were all found.

    1 if everything that is gold was found (Eq. 6: G is a subset of d), else 0.
    """
    return float(set(gold) <= set(found))


def _has_facts(question: Question) -> bool:
    """A failed run names no sentences; of a method that names them it counts as having found none."""
    return bool(question.gold_sentences)


_facts = {"of": attrgetter("facts"), "source": "PRISM, Table 2", "expected": _has_facts}
_overlap(
    "fact_precision",
    "precision",
    "Of the evidence sentences, the share that is a supporting fact; for methods that name sentences.",
    **_facts,
)
_overlap(
    "fact_recall",
    "recall",
    "Of the supporting facts, the share that is among the evidence sentences.",
    **_facts,
)
_overlap(
    "fact_f1",
    "f1",
    "Evidence sentences against the supporting facts, for methods that name sentences.",
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
    """Answers that the judging model calls right (`--judge`)."""
    return verdict
