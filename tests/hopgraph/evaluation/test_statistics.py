"""Intervals and p-values beside the normal distribution, exact counts, and each other's methods."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from hopgraph.evaluation import statistics
from hopgraph.evaluation.statistics import compare, estimate

SAMPLED = 5 * 2_000 + 1
"""Random exchanges, the observed one counted among them: each p-value is a multiple of one of these."""


def p_of(gaps, **options) -> float:
    return compare([0.0] * len(gaps), gaps, **options)["p"]


def normal_p(gaps) -> float:
    """The p-value's limit: the sum of gaps of random signs is normally distributed."""
    return 2 * NormalDist(0, float(np.sqrt(np.square(gaps).sum()))).cdf(-abs(float(np.sum(gaps))))


def test_differences_are_called_significant_below_5_percent():
    assert statistics.SIGNIFICANT == 0.05


def test_up_to_twelve_differences_every_exchange_is_counted():
    assert p_of([1.0] * 12 + [0.0] * 30) == 2 / 2**12
    sampled = p_of([0.25] * 13)
    assert sampled != 2 / 2**13
    assert sampled == pytest.approx(1 / SAMPLED, abs=5 / SAMPLED)


def test_sums_that_differ_by_rounding_alone_are_equally_large():
    gaps = [0.1, 0.2, 0.3, -0.4, 0.7]
    # Of 32 exchanges, those with |sum| >= .9: both of no exchange, of .1, .2, .3 and -.4 alone, of .1 and .2 together.
    whole = [sum(s * round(10 * gap) for s, gap in zip(signs, gaps, strict=True)) for signs in _signs(5)]
    assert p_of(gaps) == sum(abs(value) >= 9 for value in whole) / 32


def _signs(size):
    return [[1 - 2 * (number >> place & 1) for place in range(size)] for number in range(2**size)]


@pytest.mark.parametrize(("better", "worse", "p"), [(15, 5, 0.0414), (14, 6, 0.1153), (10, 10, 1.0)])
def test_gaps_of_one_size_are_the_sign_test(better, worse, p):
    """P(|X - 10| >= 5), 4 and 0 for X of 20 throws of a coin; the size of the gaps makes no difference."""
    for size in (1.0, 0.01):
        found = p_of([size] * better + [-size] * worse)
        assert found == pytest.approx(p, abs=0.008)
        assert found * SAMPLED == pytest.approx(round(found * SAMPLED), abs=1e-6)


def test_a_difference_that_no_random_exchange_reaches_is_counted_itself():
    assert p_of([1.0] * 60) == 1 / SAMPLED
    assert p_of(np.linspace(0.01, 0.02, 400)) == 1 / SAMPLED
    assert p_of(np.linspace(0.01, 0.02, 3_000)) == pytest.approx(1 / SAMPLED)


@pytest.mark.parametrize("questions", [400, 1_900, 2_600])
@pytest.mark.parametrize("shift", [0.0, 0.9, 1.8, 2.5])
def test_gaps_of_many_sizes_are_sampled_or_normal_alike(questions, shift):
    """Below and above the number of questions from which the normal limit is used; the gaps are all different."""
    gaps = np.random.default_rng(questions).normal(0, 0.02, questions)
    gaps += shift * gaps.std() / np.sqrt(questions) - gaps.mean()
    assert p_of(gaps) == pytest.approx(normal_p(gaps), abs=0.02)
    assert p_of(-gaps) == pytest.approx(p_of(gaps), abs=0.02)
    if questions < 2_000:
        assert p_of(gaps) * SAMPLED == pytest.approx(round(p_of(gaps) * SAMPLED), abs=1e-6)
    else:
        assert p_of(gaps) == pytest.approx(normal_p(gaps), rel=1e-9)


@pytest.mark.parametrize(("questions", "distinct"), [(300, 5), (300, 300), (1_900, 1_900), (3_000, 5), (3_000, 3_000)])
def test_an_interval_holds_95_percent_of_the_means_of_resamples(questions, distinct):
    values = np.random.default_rng(1).normal(10, 3, distinct)[np.arange(questions) % distinct]
    found = estimate(values)
    wide = 1.959964 * values.std() / np.sqrt(questions)
    exact = {"rel": 1e-9} if questions == distinct == 3_000 else {"abs": 0.1 * wide}
    assert found["mean"] == pytest.approx(values.mean())
    assert found["n"] == questions
    assert found["low"] == pytest.approx(values.mean() - wide, **exact)
    assert found["high"] == pytest.approx(values.mean() + wide, **exact)


@pytest.mark.parametrize("place", [0, 150, 299])
def test_every_value_is_drawn_as_often_as_any_other(place):
    """A value is drawn 0 to 3 times in 97.5% of the resamples, wherever it stands: its count is Poisson's of mean 1."""
    values = np.linspace(0, 1e-3, 300)
    values[place] = 300
    found = estimate(values)
    assert (found["low"], found["high"]) == pytest.approx((0, 3), abs=0.01)


def test_a_comparison_has_the_interval_of_the_differences():
    random = np.random.default_rng(2)
    first, second = random.random(200), random.random(200) + 0.1
    found, gaps = compare(first, second), estimate(second - first)
    assert (found["difference"], found["low"], found["high"], found["n"]) == tuple(gaps.values())
    assert found["difference"] == pytest.approx(second.mean() - first.mean())


def test_the_same_seed_gives_the_same_figures_and_the_default_is_0():
    random = np.random.default_rng(3)
    for values in (random.random(300), random.random(40).round(1)):
        assert estimate(values) == estimate(values, seed=0) != estimate(values, seed=1)
        zeros = [0.0] * len(values)
        gaps = values - 0.47
        assert compare(zeros, gaps) == compare(zeros, gaps, seed=0) != compare(zeros, gaps, seed=1)


@pytest.mark.parametrize(
    ("rounds", "width", "sizes"),
    [(10, 1, [10]), (10, 1_000_000, [2, 2, 2, 2, 2]), (7, 700_000, [2, 2, 2, 1]), (3, 5_000_000, [1, 1, 1])],
)
def test_resamples_are_drawn_in_batches_of_two_million_numbers(rounds, width, sizes):
    assert statistics._batches(rounds, width) == sizes
