"""Reciprocal rank fusion of two rankings (Cormack, Clarke and Büttcher, SIGIR 2009)."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["RRF_K", "fuse"]

RRF_K = 2
"""How little the first ranks differ. The paper's 60 suits dozens of rankings, where agreement counts; of two, one that
is sure must be able to carry a passage alone. On the sets of `benchmarks/recall.py` 1 to 3 are alike, and 60 is
worse on each."""


def fuse(rankings: Sequence[Sequence[int]]) -> list[tuple[int, float]]:
    """Rows of all rankings with their fused scores, best first.

    A row's score is the sum of 1 / (RRF_K + rank) over the rankings that have it, ranks from 1. Ties go to the row
    with the better single rank, then to the lower row, so that equal input gives equal output.
    """
    scores: dict[int, float] = {}
    best: dict[int, int] = {}
    for ranking in rankings:
        for rank, row in enumerate(ranking, start=1):
            scores[row] = scores.get(row, 0.0) + 1 / (RRF_K + rank)
            best[row] = min(best.get(row, rank), rank)
    return sorted(scores.items(), key=lambda item: (-item[1], best[item[0]], item[0]))
