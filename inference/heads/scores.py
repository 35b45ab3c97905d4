"""Functions shared by heads: softmax, span scores, word boundaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from inference.heads.trunk import Array

SPAN = ("span", "span_bias", "span_from", "span_to")
"""Weights of a span head: start and end scores, and a bilinear term for their combination."""


def softmax(scores: Array) -> NDArray[np.float64]:
    """Softmax over all values of an array."""
    powers = np.exp((scores - scores.max()).astype(np.float64))
    result: NDArray[np.float64] = powers / powers.sum()
    return result


def span_scores(states: Array, weights: Mapping[str, Array]) -> Array:
    """Scores of all spans, shape (pieces, pieces): rows are the first word piece, columns the last.

    Args:
        states: One text's word pieces, shape (pieces, 384).
        weights: The weights named in `SPAN`.
    """
    starts, ends = (states @ weights["span"] + weights["span_bias"]).T
    scores: Array = (states @ weights["span_from"]) @ (states @ weights["span_to"]).T
    scores += starts[:, None] + ends
    return scores


def whole_words(words: Sequence[int | None]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which word pieces start a word, and which end one, given which word each piece is of."""
    changes = np.array([one != other for one, other in pairwise(words)], bool)
    return np.concatenate([[True], changes]), np.concatenate([changes, [True]])


def gelu(x: Array) -> Array:
    """GELU in its tanh approximation: numpy has no error function."""
    result: Array = (
        np.float32(0.5) * x * (1 + np.tanh(np.float32(0.7978845608) * x * (1 + np.float32(0.044715) * x * x)))
    )
    return result


def readable(text: str, longest: int) -> str:
    """The first `longest` characters, with lone surrogates replaced."""
    return text[:longest].encode("utf-8", "replace").decode("utf-8")
