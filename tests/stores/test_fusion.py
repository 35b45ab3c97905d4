"""Reciprocal rank fusion."""

from __future__ import annotations

import pytest

from stores.fusion import RRF_K, fuse


def test_scores_are_those_of_the_formula():
    fused = dict(fuse([[7, 8], [8, 9]]))
    assert fused[7] == pytest.approx(1 / (RRF_K + 1))
    assert fused[8] == pytest.approx(1 / (RRF_K + 2) + 1 / (RRF_K + 1))
    assert fused[9] == pytest.approx(1 / (RRF_K + 2))


def test_what_both_found_comes_before_what_one_found():
    assert fuse([[1, 2, 3], [4, 2, 5]])[0][0] == 2


def test_ties_are_ordered_by_row_whatever_order_they_came_in():
    assert [row for row, _ in fuse([[5, 1], [1, 5]])] == [1, 5]
    assert [row for row, _ in fuse([[9], [3]])] == [3, 9]


def test_nothing_found_gives_nothing():
    assert fuse([[], []]) == []
