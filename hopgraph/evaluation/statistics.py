"""Bootstrap intervals of means, and the paired permutation test of two runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypedDict

SIGNIFICANT = 0.05
"""The p-value below which a difference is called significant."""
RESAMPLES = 2_000
_ALL = 12
"""Maximum number of differences for the exact test over all 4,096 exchanges; above, exchanges are random."""
_FEW = 256
"""Maximum number of distinct values for drawing resamples as counts of each value: equivalent and cheaper."""
_MANY = 2_000
"""Number of questions above which a mean of more distinct values is treated as normally distributed."""
_CELLS = 2_000_000
"""Numbers held in memory at a time."""


class Estimate(TypedDict):
    """A mean with its 95% interval."""

    mean: float
    low: float
    high: float
    n: int


class Comparison(TypedDict):
    """Two runs over the same questions."""

    difference: float
    """Mean of the second minus mean of the first."""
    low: float
    high: float
    p: float
    n: int


def estimate(values: Sequence[float], seed: int = 0) -> Estimate | None:
    """Mean and percentile bootstrap interval (Efron 1979): 95% of the means of resamples of the same size.

    For thousands of nearly all different values (tokens, seconds) it is the normal interval, the bootstrap's limit.

    Args:
        values: One number a question.
        seed: The same values and seed give the same interval.

    Returns:
        None without values.
    """
    if not len(values):
        return None
    data = np.asarray(values, dtype=np.float64)
    low, high = _interval(data, seed)
    return Estimate(mean=float(data.mean()), low=low, high=high, n=len(data))


def compare(first: Sequence[float], second: Sequence[float], seed: int = 0) -> Comparison | None:
    """The difference of two runs' means over the same questions, its bootstrap interval, and a p-value.

    The p-value is that of the two-sided paired permutation test (Fisher's randomisation test; Smucker et al. 2007):
    the share of random exchanges of the two runs' values, question by question, that make a difference at least as
    large; of all exchanges where few questions differ. The observed one is counted among them, so that p is never 0.

    Args:
        first: One number a question.
        second: The other run's, for the same questions in the same order.
        seed: The same values and seed give the same result.

    Returns:
        None without questions.
    """
    gaps = np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    if not gaps.size:
        return None
    low, high = _interval(gaps, seed)
    return Comparison(difference=float(gaps.mean()), low=low, high=high, p=_permutation_p(gaps, seed), n=len(gaps))


def _permutation_p(gaps: NDArray[np.float64], seed: int) -> float:
    """The share of random exchanges; with thousands of gaps, nearly all different, its normal limit."""
    generator = np.random.default_rng(seed)
    observed = abs(gaps.sum())
    rounds = 5 * RESAMPLES
    different = gaps[gaps != 0]
    if len(different) <= _ALL:
        signs = 1 - 2 * (np.arange(2 ** len(different))[:, None] >> np.arange(len(different)) & 1)
        return float((np.abs(signs @ different) >= observed - 1e-9).mean())
    sizes, counts = np.unique(np.abs(different), return_counts=True)
    if len(sizes) <= _FEW:
        # Of gaps of one size a random number points the other way.
        sums = (2 * generator.binomial(counts, 0.5, (rounds, len(counts))) - counts) @ sizes
        extreme = int((np.abs(sums) >= observed - 1e-9).sum())
    elif len(gaps) > _MANY:
        return max(math.erfc(observed / math.sqrt(2 * float(gaps @ gaps))), 1 / (rounds + 1))
    else:
        extreme = 0
        for size in _batches(rounds, len(gaps)):
            signs = generator.integers(0, 2, (size, len(gaps)), dtype=np.int8) * 2 - 1
            extreme += int((np.abs(signs @ gaps) >= observed - 1e-9).sum())
    return (extreme + 1) / (rounds + 1)


def _interval(data: NDArray[np.float64], seed: int) -> tuple[float, float]:
    generator = np.random.default_rng(seed)
    values, counts = np.unique(data, return_counts=True)
    if len(values) <= _FEW:
        means = generator.multinomial(len(data), counts / len(data), RESAMPLES) @ values / len(data)
    elif len(data) > _MANY:
        spread = 1.959964 * float(data.std()) / math.sqrt(len(data))
        return float(data.mean()) - spread, float(data.mean()) + spread
    else:
        batches = _batches(RESAMPLES, len(data))
        draws = [data[generator.integers(0, len(data), (size, len(data)))].mean(axis=1) for size in batches]
        means = np.concatenate(draws)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def _batches(rounds: int, width: int) -> list[int]:
    size = max(1, min(rounds, _CELLS // width))
    return [min(size, rounds - done) for done in range(0, rounds, size)]
