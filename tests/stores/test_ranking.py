"""The best of many scores."""

from __future__ import annotations

import numpy as np
import pytest

from stores.ranking import best


@pytest.mark.parametrize("k", [1, 2, 3, 5, 9])
def test_equal_scores_come_in_row_order_also_at_the_cut(k):
    scores = np.array([1, 3, 2, 3, 2, 2, 0], np.float32)
    rows, found = best(scores, k)
    assert rows.tolist() == [1, 3, 2, 4, 5, 0, 6][:k]
    assert found.tolist() == [3, 3, 2, 2, 2, 1, 0][:k]


def test_it_is_a_stable_full_sort_of_the_rows_that_count():
    scores = np.array([1, 3, 0, 3, 2, 3, -1], np.float32)
    for k in range(1, 9):
        assert best(scores, k, np.flatnonzero(scores > 0))[0].tolist() == [1, 3, 5, 4, 0][:k]


def test_only_rows_that_count_are_ranked():
    scores = np.array([1, 3, 2, 3, 2, 2, 0], np.float32)
    rows, found = best(scores, 2, np.array([0, 2, 4, 6]))
    assert (rows.tolist(), found.tolist()) == ([2, 4], [2, 2])
    assert best(scores, 2, np.array([], np.int64))[0].tolist() == []


def test_a_few_of_many_are_those_of_a_full_sort():
    scores = np.random.default_rng(0).integers(0, 300, 1_000).astype(np.float32)
    for k in (1, 10, 100, 500, 999, 1_000):
        rows, found = best(scores, k)
        assert rows.tolist() == np.argsort(-scores, kind="stable")[:k].tolist()
        assert found.tolist() == sorted(scores.tolist(), reverse=True)[:k]
