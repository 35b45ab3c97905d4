"""Reciprocal rank fusion."""

from __future__ import annotations

import pytest

from stores.fusion import fuse


def test_scores_are_those_of_the_formula():
    """1 / (2 + rank), ranks from 1: 1/3, 1/4, 1/5."""
    fused = dict(fuse([[7, 8, 6], [8, 9]]))
    assert fused[7] == pytest.approx(1 / 3)
    assert fused[8] == pytest.approx(1 / 4 + 1 / 3)
    assert fused[9] == pytest.approx(1 / 4)
    assert fused[6] == pytest.approx(1 / 5)


def test_what_both_found_comes_before_what_one_found():
    assert fuse([[1, 2, 3], [4, 2, 5]])[0][0] == 2


def test_ties_are_ordered_by_row_whatever_order_they_came_in():
    assert [row for row, _ in fuse([[5, 1], [1, 5]])] == [1, 5]
    assert [row for row, _ in fuse([[9], [3]])] == [3, 9]


def test_of_equal_scores_the_better_single_rank_comes_first_whatever_its_row():
    fused = fuse([[9, 1, 2, 5], [8, 3, 4, 5]])  # 5 is fourth in both: 1/6 + 1/6, as much as a first place in one
    assert [row for row, _ in fused[:3]] == [8, 9, 5]
    assert len({score for _, score in fused[:3]}) == 1


def test_nothing_found_gives_nothing():
    assert fuse([[], []]) == []
