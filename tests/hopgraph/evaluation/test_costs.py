"""Figures of a variant, worked out by hand."""

from __future__ import annotations

import pytest

from hopgraph.evaluation.costs import COSTS, TOTALS, Totals
from hopgraph.evaluation.statistics import estimate
from inference.ledger import cost_of


def totals(*scores, price=None, **costs):
    means = {name: estimate(values) for name, values in costs.items()}
    return TOTALS.measure(Totals(scores, {}, means, price))


def row(em, complete):
    return {"em": float(em), "all_gold_retrieved": float(complete)}


def test_evidence_is_forgotten_where_all_gold_was_retrieved_and_the_answer_is_wrong():
    found = totals(row(0, 1), row(0, 1), row(1, 1), row(0, 0), row(1, 0))
    assert found["efr"] == pytest.approx(2 / 3)
    assert found["efr_all"] == pytest.approx(2 / 5)


def test_questions_without_gold_passages_or_answers_are_no_part_of_it():
    found = totals(row(0, 1), row(1, 1), {"em": 0.0}, {"all_gold_retrieved": 1.0})
    assert (found["efr"], found["efr_all"]) == (0.5, 0.5)
    assert "efr" not in totals({"em": 0.0})
    assert "efr" not in totals(row(0, 0)), "no question has all gold"
    assert totals(row(0, 0))["efr_all"] == 0.0


def test_the_price_is_that_of_a_million_tokens():
    tokens = {"prompt_tokens": [1e6, 3e6], "completion_tokens": [5e5, 5e5]}
    assert totals(price={"prompt": 2.0, "completion": 10.0}, **tokens)["money"] == pytest.approx(9.0, rel=1e-9)
    assert "money" not in totals(**tokens)


def test_tokens_are_those_of_prompts_and_replies():
    found = COSTS.measure({**cost_of([]), "prompt_tokens": 700, "completion_tokens": 30, "searches": 2})
    assert (found["tokens"], found["prompt_tokens"], found["searches"]) == (730.0, 700.0, 2.0)


def test_money_and_repairs_are_columns_only_where_there_are_any():
    every = {**COSTS, **TOTALS}
    optional = {name for name, metric in every.items() if metric.optional}
    assert optional == {"repairs", "money", "review_agreement", "right_at_wrong_hops"}
