"""HANRAG's Revelator as a small encoder: route, relevance and ending (Sec. 4.1, app. A) are classification.

One set of upper layers reads a question, a question with a passage, or a question with the chain of sub-questions
answered so far; each skill has its own head. Two heads have an extra feature: relevance the cosine of question and
passage in the untrained encoder, ending the hop predictor's distribution.
`training/README.md` says how they were trained, how well they do, and where they fail. Decomposing and
refining write text and stay with a language model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np

from inference.encoders.minilm import built_in_encoder
from inference.heads.hops import predict_hops
from inference.heads.npz import load_head
from inference.heads.scores import gelu, readable, softmax, times
from inference.heads.trunk import Array, UpperLayers, get_trunk
from inference.limits import UNKNOWN

Route = Literal["straightforward", "single_step", "compound", "complex"]
ROUTES: tuple[Route, ...] = get_args(Route)
"""No retrieval; one retrieval; several in parallel; several in sequence."""
SKILLS = {"router": len(ROUTES), "relevance": 1, "ending": 1}
"""Heads, and the number of their outputs."""
_LIKENESS = "relevance.likeness"
"""Name of the weight of the cosine in relevance."""


@dataclass(frozen=True, slots=True)
class RoutePrediction:
    """The predicted route of a question."""

    route: Route
    """The most probable route."""
    probabilities: tuple[float, float, float, float]
    """In the order of `ROUTES`; they sum to 1."""


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
        passages: Each as title, line break, text; truncated at 512 word pieces.

    Raises:
        StoreError: The encoder or the trained weights can't be read.
    """
    question, weight = readable(question, 1000), float(_head()[1][_LIKENESS][0])
    found = []
    for passage in (readable(passage, 20_000) for passage in passages):
        score = float(_scores("relevance", prepared(question), passage)[0])
        found.append(_probability(score + weight * likeness(question, passage)))
    return found


def ending(question: str, chain: Sequence[tuple[str, str]]) -> float:
    """Probability that answered sub-questions suffice to answer a question; 0 for none. Thread-safe.

    Args:
        question: The question.
        chain: Sub-questions and their answers, in the order they were asked; "" or `UNKNOWN` where there is none.

    Raises:
        StoreError: The encoder or the trained weights can't be read.
        InputError: spaCy's English model is not installed.
    """
    if not chain:
        return 0.0
    question = readable(question, 1000)
    score = float(_scores("ending", prepared(question), readable(as_text(chain), 20_000))[0])
    # A hop without an answer is no step towards the end.
    answered = sum(said not in ("", UNKNOWN) for _, said in chain)
    return _probability(score + expected_to_end(question, answered))


def likeness(question: str, passage: str) -> float:
    """Cosine of a question and a passage in the untrained encoder, -1 to 1.

    Raises:
        StoreError: The encoder can't be read.
    """
    # One by one: padding in a batch can change a vector's last digits.
    asked, read = _vector(question), built_in_encoder().encode_passages([passage])[0]
    return float(asked @ read)


def expected_to_end(question: str, steps: int) -> float:
    """Log-odds that a question needs no more than so many hops, -4.6 to 4.6 (a probability of .01 to .99).

    Raises:
        StoreError: The encoder or the trained weights can't be read.
        InputError: spaCy's English model is not installed.
    """
    probability = min(max(sum(_hops(question)[:steps]), 0.01), 0.99)
    return float(np.log(probability / (1 - probability)))


def prepared(question: str) -> str:
    """The encoder's input: without closing punctuation, which is an artefact of data sets."""
    return question.rstrip(" \t\r\n?.!")


def as_text(chain: Sequence[tuple[str, str]]) -> str:
    """A chain as the encoder's input; of a long one the end, which decides."""
    return "\n".join(f"{question[:500]} {answer[:300] or UNKNOWN}" for question, answer in chain[-8:])


def _probability(score: float) -> float:
    return float(1 / (1 + np.exp(-score)))


def _scores(skill: str, question: str, second: str | None = None) -> Array:
    trunk, (upper, weights) = get_trunk(), _head()
    states = upper.states(trunk.states(trunk.pieces(question, second).ids))
    pooled = np.concatenate([states[0], states.mean(axis=0)])
    hidden = gelu(times(pooled, weights[f"{skill}.hidden"]) + weights[f"{skill}.hidden_bias"])
    scores: Array = times(hidden, weights[f"{skill}.scores"]) + weights[f"{skill}.scores_bias"]
    return scores


@lru_cache(maxsize=256)
def _hops(question: str) -> tuple[float, float, float, float]:
    return predict_hops([question])[0].probabilities


@lru_cache(maxsize=256)
def _vector(question: str) -> Array:
    vector: Array = built_in_encoder().encode_queries([question])[0]
    return vector


@lru_cache(maxsize=1)
def _head() -> tuple[UpperLayers, dict[str, Array]]:
    """The trained upper layers, and a head of one hidden layer for each skill."""
    parts = ("hidden", "hidden_bias", "scores", "scores_bias")
    needed = [_LIKENESS, *(f"{skill}.{part}" for skill in SKILLS for part in parts)]
    return load_head("revelator.npz", needed, hint="make train-revelator-encoder")
