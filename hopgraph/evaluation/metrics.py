"""Metrics of one question: each with its definition, and where it comes from. All are shares, 0 to 1."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from typing import TypeVar

from typing_extensions import TypedDict

__all__ = [
    "Overlap",
    "all_retrieved",
    "containment",
    "entity_accuracy",
    "exact_match",
    "normalise",
    "normalise_title",
    "overlap",
    "partial_match",
    "retrieval_efficiency",
    "token_f1",
]

Unit = TypeVar("Unit", bound=Hashable)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Overlap(TypedDict):
    """How a set that was found compares with the one that is right."""

    precision: float
    recall: float
    f1: float


def normalise(text: str) -> str:
    """An answer as it is compared: lower case, without ASCII punctuation, articles and superfluous space.

    SQuAD's official evaluation (Rajpurkar et al. 2016), which all of the papers take over.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(prediction: str, answers: Sequence[str]) -> float:
    """1 if the normalised prediction equals one of the normalised answers, else 0 (SQuAD, EM).

    An empty prediction is wrong, even where an answer is nothing but articles and signs.
    """
    return float(bool(prediction.strip()) and any(normalise(prediction) == normalise(answer) for answer in answers))


def token_f1(prediction: str, answers: Sequence[str]) -> float:
    """Harmonic mean of precision and recall over the words that prediction and answer share, repeats counted.

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


def containment(prediction: str, answers: Sequence[str]) -> float:
    """1 if one of the answers stands in the prediction (HANRAG, Sec. 6, Acc; Mallen et al. 2023), else 0.

    Both are normalised, and whole words are compared: `art` does not stand in `Bartók`.
    """
    return float(any(_stands_in(answer, prediction) for answer in answers))


def _stands_in(answer: str, text: str) -> bool:
    wanted = normalise(answer)
    return bool(wanted) and f" {wanted} " in f" {normalise(text)} "


def partial_match(prediction: str, answers: Sequence[str]) -> float:
    """1 if an answer stands in the prediction or the prediction in an answer, else 0 (PRISM, App. A.1, PMA).

    The paper names the metric and does not define it; this is the usual reading.
    """
    return float(any(_stands_in(a, prediction) or _stands_in(prediction, a) for a in answers))


def entity_accuracy(prediction: str, entities: Sequence[Sequence[str]]) -> float:
    """Share of a compound question's answers, each in one of its wordings, that stand in the prediction.

    HANRAG, Sec. 6: the ground truth is split into its entities, and each that occurs in the prediction counts.
    """
    return sum(containment(prediction, names) for names in entities) / len(entities) if entities else 0.0


def normalise_title(title: str) -> str:
    """A title as titles are compared: without regard to case, space and the way accents are encoded."""
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


def all_retrieved(found: Collection[Unit], gold: Collection[Unit]) -> float:
    """1 if everything that is gold was found (PruneRAG, Eq. 6: G is a subset of d), else 0."""
    return float(set(gold) <= set(found))


def retrieval_efficiency(recall: float, searches: float) -> float | None:
    """RE = mean recall / mean number of searches of a question (PruneRAG, Table 3); None without a search.

    Of several datasets the table gives the mean of their RE: 60.7/2.06, 47.4/3.40 and 23.2/3.39 make 16.7.
    """
    return recall / searches if searches else None
