from __future__ import annotations

import numpy as np
import pytest

from inference.heads.scores import SPAN, SpanScores, times


@pytest.mark.parametrize("pieces", [1, 7, 200])
def test_a_spans_score_is_that_of_its_ends_and_of_both_together(pieces):
    rng = np.random.default_rng(0)
    shapes = {"span": (384, 2), "span_bias": (2,), "span_from": (384, 64), "span_to": (384, 64)}
    weights = {name: rng.normal(size=shapes[name]).astype(np.float32) for name in SPAN}
    states = rng.normal(size=(pieces, 384)).astype(np.float32)
    starts, ends = (states @ weights["span"] + weights["span_bias"]).T
    together = (states @ weights["span_from"]) @ (states @ weights["span_to"]).T
    expected = together + starts[:, None] + ends
    assert np.allclose(SpanScores(weights)(states), expected, rtol=1e-4, atol=0.05)


def test_a_vector_times_a_matrix():
    rng = np.random.default_rng(0)
    vector, matrix = rng.normal(size=768).astype(np.float32), rng.normal(size=(768, 128)).astype(np.float32)
    assert np.allclose(times(vector, matrix), vector @ matrix, atol=1e-3)
