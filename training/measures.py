"""Metrics of trained heads: agreement of answers, calibration and ranking of probabilities, and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hopgraph.evaluation.metrics import exact_match, token_f1

Scores = NDArray[np.float64]
Matrix = NDArray[np.int64]
"""Shape (classes, classes): rows of data by true class (rows) and predicted class (columns)."""


def confusion(true: Sequence[int], predicted: Sequence[int], classes: int) -> Matrix:
    """Confusion matrix of classes numbered from 0."""
    matrix = np.zeros((classes, classes), np.int64)
    np.add.at(matrix, (np.asarray(true, int), np.asarray(predicted, int)), 1)
    return matrix


def class_f1(matrix: Matrix) -> list[float | None]:
    """F1 of each class, None for one without rows."""
    hits, both = matrix.diagonal(), matrix.sum(axis=0) + matrix.sum(axis=1)
    return [2 * float(hits[i]) / float(both[i]) if matrix[i].sum() else None for i in range(len(matrix))]


def macro_f1(matrix: Matrix) -> float:
    """Mean F1 of the classes that occur among the true ones."""
    return float(np.mean([score for score in class_f1(matrix) if score is not None]))


def shares_right(groups: Sequence[tuple[object, ...]], right: Sequence[bool]) -> list[list[object]]:
    """Accuracy per group, in order: name, rows, share correct."""
    total, hits = Counter(groups), Counter(group for group, good in zip(groups, right, strict=True) if good)
    return [[*group, total[group], hits[group] / total[group]] for group in sorted(total)]


def calibration_error(probabilities: Scores, right: NDArray[np.bool_]) -> float:
    """Expected calibration error with ten bins of equal width."""
    ranges = np.minimum((probabilities * 10).astype(int), 9)
    gaps = [abs(float((probabilities[ranges == i] - right[ranges == i]).sum())) for i in range(10)]
    return sum(gaps) / max(len(probabilities), 1)


def ranked_right(scores: Scores, right: NDArray[np.bool_]) -> float:
    """Area under the ROC curve; ties count half."""
    better = scores[right][:, None] - scores[~right]
    return float(((better > 0).mean() + (better >= 0).mean()) / 2) if better.size else float("nan")


def agreement(said: str, gold: str) -> tuple[float, float]:
    """Exact match and token F1 of two answers."""
    return exact_match(said, [gold]), token_f1(said, [gold])


def table(titles: Sequence[str], lines: Sequence[Sequence[object]], texts: int = 1) -> str:
    """A Markdown table; the first columns are texts, the others are figures, floats with three places."""
    cells = [[f"{value:.3f}" if isinstance(value, float) else str(value) for value in line] for line in lines]
    ruled = ["---"] * texts + ["---:"] * (len(titles) - texts)
    first, *others = ("|" + "".join(f" {cell} |" if cell else " |" for cell in line) for line in (titles, *cells))
    return "\n".join([first, f"|{'|'.join(ruled)}|", *others])
