"""Fig. 3's curve as a table."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def table(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    sys.modules.pop("token_curve", None)
    from token_curve import table

    return table


def test_reading_is_paid_before_the_first_question_and_by_compactrag_alone(table):
    tokens = {"compactrag": [10.0, 30.0], "ircot": [100.0, 140.0], "cheap": [5.0, 5.0]}
    lines = table(tokens, 1000.0, {"ircot": 10200.0}, [1, 2, 250]).splitlines()
    assert lines[0] == "| method | a question | paper | after 1 | after 2 | compactrag pays off after |"
    assert lines[2:5] == [
        "| compactrag | 20 | - | 1,010 | 1,040 | - |",
        "| ircot | 120 | 10,200 | 100 | 240 | 10 |",
        "| cheap | 5 | - | 5 | 10 | never |",
    ]
    assert lines[-1] == "read beforehand: 1,000 tokens"
