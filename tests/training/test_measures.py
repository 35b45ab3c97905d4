from __future__ import annotations

import numpy as np
import pytest

from training.measures import agreement, calibration_error, confusion, macro_f1, ranked_right, table


def test_agreement_is_exact_match_and_f1_of_the_evaluation():
    assert agreement("The Hague", "hague.") == (1, 1)
    assert agreement("New York City", "New York") == (0, 0.8)
    assert agreement("", "Rome") == (0, 0)


def test_calibration_error_is_the_mean_distance_of_probability_from_share():
    probabilities = np.array([0.95, 0.95, 0.15, 0.15])
    assert calibration_error(probabilities, np.array([True, True, False, False])) == pytest.approx(0.1)
    assert calibration_error(probabilities, np.array([False, False, True, True])) == pytest.approx(0.9)


def test_ranked_right_counts_pairs_and_halves_ties():
    right = np.array([True, False, False])
    assert ranked_right(np.array([0.5, 0.5, 0.1]), right) == 0.75
    assert ranked_right(np.array([0.9, 0.5, 0.1]), right) == 1


def test_a_table_is_markdown():
    assert (
        table(["name", "rows", "right"], [["a", 3, 0.5]])
        == "| name | rows | right |\n|---|---:|---:|\n| a | 3 | 0.500 |"
    )


def test_confusion_counts_true_rows_and_predicted_columns():
    matrix = confusion([0, 0, 1, 3], [0, 1, 1, 2], 4)
    assert matrix.tolist() == [[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0]]


def test_macro_f1_is_the_mean_over_the_classes_that_occur():
    # Class 0: precision 1, recall 1/2; 1: precision 1/2, recall 1; 3: nothing right; 2 does not occur.
    assert macro_f1(confusion([0, 0, 1, 3], [0, 1, 1, 2], 4)) == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)
