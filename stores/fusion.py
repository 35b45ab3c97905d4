"""Reciprocal rank fusion of two rankings (Cormack, Clarke and Büttcher, SIGIR 2009)."""

from __future__ import annotations

from collections.abc import Sequence

RRF_K = 2
"""Rank constant: a higher one reduces the weight of top ranks. The paper's 60 suits dozens of rankings, where agreement
counts; with two, a top rank in one must suffice. On the data of `benchmarks/recall.py`, 1 to 3 score alike, and 60 is
worse on each set."""


def fuse(rankings: Sequence[Sequence[int]]) -> list[tuple[int, float]]:
    """Fuse rankings; returns rows with their fused scores, best first.

    A row's score is the sum of 1 / (RRF_K + rank) over the rankings that contain it, ranks from 1. Ties are broken by
    the better single rank, then by the lower row, which makes the result deterministic.
    """
    scores: dict[int, float] = {}
    best: dict[int, int] = {}
    for ranking in rankings:
        for rank, row in enumerate(ranking, start=1):
            scores[row] = scores.get(row, 0.0) + 1 / (RRF_K + rank)
            best[row] = min(best.get(row, rank), rank)
    return sorted(scores.items(), key=lambda item: (-item[1], best[item[0]], item[0]))
