"""Top-k selection."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ranking = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Rows, best first, and their scores."""


def best(scores: NDArray[np.float32], k: int, rows: NDArray[np.int64] | None = None) -> Ranking:
    """The k highest scores, best first; ties in row order, also at the cut-off. Partial sort.

    Args:
        scores: One for each row.
        k: Number of rows.
        rows: Candidate rows, ascending; default: all.
    """
    among = scores if rows is None else scores[rows]
    # Include all ties with the k-th score, so that the row decides among them.
    near = np.arange(len(among)) if k >= len(among) else np.flatnonzero(among >= np.partition(among, -k)[-k])
    order = near[np.argsort(-among[near], kind="stable")[:k]]
    return (order if rows is None else rows[order]), among[order]


def merged(rankings: Sequence[Ranking], k: int) -> Ranking:
    """The k highest scores of several rankings of distinct rows, best first; ties in row order."""
    rows = np.concatenate([np.empty(0, np.int64), *(ranking[0] for ranking in rankings)])
    scores = np.concatenate([np.empty(0, np.float32), *(ranking[1] for ranking in rankings)])
    order = np.lexsort((rows, -scores))[:k]
    return rows[order], scores[order]
