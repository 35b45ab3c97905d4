"""How trained parts are measured: agreement of answers, quality of probabilities, and tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hopgraph.evaluation.metrics import exact_match, token_f1

__all__ = ["agreement", "calibration_error", "ranked_right", "table"]

Scores = NDArray[np.float64]


def calibration_error(probabilities: Scores, right: NDArray[np.bool_]) -> float:
    """How far, over ten ranges of probability, the mean probability is from the share that is right; mean over rows."""
    ranges = np.minimum((probabilities * 10).astype(int), 9)
    gaps = [abs(float((probabilities[ranges == i] - right[ranges == i]).sum())) for i in range(10)]
    return sum(gaps) / max(len(probabilities), 1)


def ranked_right(scores: Scores, right: NDArray[np.bool_]) -> float:
    """Share of pairs of a right and a wrong one in which the right one scores higher (AUC); ties count half."""
    better = scores[right][:, None] - scores[~right]
    return float(((better > 0).mean() + (better >= 0).mean()) / 2) if better.size else float("nan")


def agreement(said: str, gold: str) -> tuple[float, float]:
    """Exact match and token F1 of two answers."""
    return exact_match(said, [gold]), token_f1(said, [gold])


def table(titles: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    """A Markdown table; the first column is text, the others are figures, floats with three places."""
    cells = [[f"{value:.3f}" if isinstance(value, float) else str(value) for value in line] for line in lines]
    ruled = f"|---|{'---:|' * (len(titles) - 1)}"
    return "\n".join([f"| {' | '.join(titles)} |", ruled, *(f"| {' | '.join(line)} |" for line in cells)])
