"""HANRAG's Revelator as a small encoder: route, relevance and ending (Sec. 4.1, app. A) are classification.

One set of upper layers reads a question, a question with a passage, or a question with the chain of sub-questions
answered so far; each skill has a head of its own. `hopgraph/training/README.md` says how they were trained, how well
they do, and where they fail. Decomposing and refining write text and stay with a language model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np

from inference.heads import Array, UpperLayers, gelu, get_trunk, load_head, readable, softmax

__all__ = ["ROUTES", "SKILLS", "Route", "RoutePrediction", "as_text", "ending", "prepared", "relevance", "route"]

Route = Literal["straightforward", "single_step", "compound", "complex"]
ROUTES: tuple[Route, ...] = get_args(Route)
"""Answered without retrieval; by one retrieval; by several at once; by one after the other."""
SKILLS = {"router": len(ROUTES), "relevance": 1, "ending": 1}
"""Heads, and how many scores each gives."""


@dataclass(frozen=True, slots=True)
class RoutePrediction:
    """The predicted route of a question."""

    route: Route
    """The most probable one."""
    probabilities: tuple[float, float, float, float]
    """In the order of `ROUTES`; they add up to 1."""


def route(questions: Sequence[str]) -> list[RoutePrediction]:
    """Routes of questions, in the order given; a question's result does not depend on its neighbours. Thread-safe.

    Raises:
        StoreError: The encoder or the trained weights can't be read.
    """
    found = []
    for question in questions:
        one, two, three, four = softmax(_scores("router", prepared(readable(question, 5000)))).tolist()
        probabilities = (one, two, three, four)
        found.append(RoutePrediction(ROUTES[int(np.argmax(probabilities))], probabilities))
    return found


def relevance(question: str, passages: Sequence[str]) -> list[float]:
    """Probability that each passage helps to answer a question, in the order given. Thread-safe.

    Args:
        question: The question or sub-question.
        passages: Each as title, line break, text. What is beyond 512 word pieces is not read.

    Raises:
        StoreError: The encoder or the trained weights can't be read.
    """
    asked = prepared(readable(question, 1000))
    return [_probability("relevance", asked, readable(passage, 20_000)) for passage in passages]


def ending(question: str, chain: Sequence[tuple[str, str]]) -> float:
    """Probability that answered sub-questions suffice to answer a question; 0 for none. Thread-safe.

    Args:
        question: The question.
        chain: Sub-questions and their answers, in the order they were asked.

    Raises:
        StoreError: The encoder or the trained weights can't be read.
    """
    if not chain:
        return 0.0
    return _probability("ending", prepared(readable(question, 1000)), readable(as_text(chain), 20_000))


def prepared(question: str) -> str:
    """The question as the encoder reads it: its closing punctuation says more about a data set than about the task."""
    return question.rstrip(" \t\r\n?.!")


def as_text(chain: Sequence[tuple[str, str]]) -> str:
    """A chain as the encoder reads it; of a long one the end, where the decision falls."""
    return "\n".join(f"{question[:500]} {answer[:300]}" for question, answer in chain[-8:])


def _probability(skill: str, question: str, second: str) -> float:
    score = float(_scores(skill, question, second)[0])
    return float(1 / (1 + np.exp(-score)))


def _scores(skill: str, question: str, second: str | None = None) -> Array:
    trunk, (upper, weights) = get_trunk(), _head()
    states = upper.states(trunk.states(trunk.pieces(question, second).ids))
    pooled = np.concatenate([states[0], states.mean(axis=0)])
    hidden = gelu(pooled @ weights[f"{skill}.hidden"] + weights[f"{skill}.hidden_bias"])
    scores: Array = hidden @ weights[f"{skill}.scores"] + weights[f"{skill}.scores_bias"]
    return scores


@lru_cache(maxsize=1)
def _head() -> tuple[UpperLayers, dict[str, Array]]:
    """The trained upper layers, and a head of one hidden layer for each skill."""
    parts = ("hidden", "hidden_bias", "scores", "scores_bias")
    needed = [f"{skill}.{part}" for skill in SKILLS for part in parts]
    return load_head("revelator.npz", needed, hint="make train-revelator-encoder")
