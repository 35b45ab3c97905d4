"""Functions shared by heads: softmax, span scores, word boundaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from inference.heads.encoder_graph import STATES_IN, STATES_OUT, span_model
from inference.heads.trunk import Array, open_session

SPAN = ("span", "span_bias", "span_from", "span_to")
"""Weights of a span head: start and end scores, and a bilinear term for their combination."""


def softmax(scores: Array) -> NDArray[np.float64]:
    """Softmax over all values of an array."""
    powers = np.exp((scores - scores.max()).astype(np.float64))
    result: NDArray[np.float64] = powers / powers.sum()
    return result


class SpanScores:
    """Scores of all spans of a text, on onnxruntime: numpy's BLAS wakes all cores for a product, which then spin.

    Args:
        weights: The weights named in `SPAN`.
    """

    def __init__(self, weights: Mapping[str, Array]) -> None:
        self._session = open_session(span_model({name: weights[name] for name in SPAN}))

    def __call__(self, states: Array) -> Array:
        """Shape (pieces, pieces): rows are the first word piece, columns the last. Thread-safe.

        Args:
            states: One text's word pieces, shape (pieces, 384).
        """
        scores: Array = self._session.run([STATES_OUT], {STATES_IN: states[None]})[0][0]
        return scores


def times(vector: Array, matrix: Array) -> Array:
    """Product of a vector and a small matrix, without BLAS (see `SpanScores`)."""
    product: Array = np.einsum("i,ij->j", vector, matrix)
    return product


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
