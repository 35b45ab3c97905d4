"""Top-k selection."""

from __future__ import annotations

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
