"""Cost figures, computed by hand from small ledgers."""

from __future__ import annotations

from typing import Any

import pytest

from inference.ledger import Call, cost_of


def call(key: str, **fields: Any) -> Call:
    default = {
        "id": key,
        "kind": "model",
        "node": "n",
        "step": "root",
        "prompt": "m/p",
        "prompt_hash": "h",
        "model": "m",
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "cached_tokens": 0,
        "started": 0.0,
        "seconds": 0.0,
        "finish_reason": "stop",
        "cached": False,
        "repair": False,
        "superstep": 1,
        "task": "a",
        "outer": [],
    }
    assert set(fields) <= set(default)
    return Call(**{**default, **fields})  # type: ignore[typeddict-item]


def search(key: str, **fields: Any) -> Call:
    return call(key, kind="search", prompt="", prompt_hash="", **fields)


def test_an_empty_ledger_costs_nothing():
    assert set(cost_of([]).values()) == {0}


def test_tokens_calls_and_repairs_are_summed():
    cost = cost_of(
        [
            call("a", prompt_tokens=10, completion_tokens=3),
            call("ar", prompt_tokens=20, completion_tokens=4, repair=True),
            call("b", prompt_tokens=100, completion_tokens=50, superstep=2),
        ]
    )
    assert (cost["calls"], cost["repairs"], cost["cached_calls"]) == (3, 1, 0)
    assert (cost["prompt_tokens"], cost["completion_tokens"]) == (130, 57)


def test_replies_from_the_cache_are_no_calls_and_no_tokens():
    cost = cost_of(
        [call("a", cached=True, prompt_tokens=10, completion_tokens=3, repair=True), call("b", prompt_tokens=5)]
    )
    assert (cost["calls"], cost["cached_calls"], cost["repairs"]) == (1, 1, 0)
    assert (cost["prompt_tokens"], cost["completion_tokens"], cost["chain"]) == (5, 0, 1)


def test_searches_side_by_side_are_several_searches_and_one_step():
    cost = cost_of([search("a", task="0"), search("b", task="1"), search("c", superstep=4), call("d", superstep=5)])
    assert (cost["searches"], cost["steps"], cost["calls"]) == (3, 2, 1)


def test_the_chain_follows_the_longest_branch_of_every_superstep():
    """Superstep 1: one task of two calls beside one of a single call (2); superstep 2: three side by side (1)."""
    ledger = [
        call("1a", task="x"),
        call("1ar", task="x", repair=True),
        call("1b", task="y"),
        *(call(f"2{n}", superstep=2, task=str(n)) for n in range(3)),
        search("s", superstep=3),
    ]
    assert cost_of(ledger)["chain"] == 3
    assert cost_of(ledger)["calls"] == 6


def test_supersteps_of_a_subgraph_are_counted_in_each_of_its_runs():
    """A subgraph that searches (1), judges three side by side (2) and answers (3), twice one after the other."""
    ledger = [
        entry
        for run in ("c1", "c2")
        for entry in (
            search(f"{run}s", outer=[(run, "anrag")]),
            *(call(f"{run}j{n}", superstep=2, task=str(n), outer=[(run, "anrag")]) for n in range(3)),
            call(f"{run}a", superstep=3, outer=[[run, "anrag"]]),  # as a checkpoint gives it back
        )
    ]
    cost = cost_of([call("first"), *ledger, call("last", superstep=7)])
    assert (cost["steps"], cost["searches"]) == (2, 2)
    assert cost["chain"] == 1 + 2 * (1 + 1) + 1


def test_subgraphs_side_by_side_are_one_step_and_the_longest_of_them_counts():
    """One of three subgraphs of a superstep needs a repair; the calls of their inner supersteps do not add up."""
    ledger = [
        entry
        for task in ("x", "y", "z")
        for entry in (search(f"{task}s", outer=[("c", task)]), call(f"{task}a", superstep=2, outer=[("c", task)]))
    ]
    ledger.append(call("ya r", superstep=2, repair=True, outer=[("c", "y")]))
    cost = cost_of([call("decomposer"), *ledger, call("merger", superstep=3)])
    assert (cost["steps"], cost["searches"]) == (1, 3)
    assert cost["chain"] == 1 + 2 + 1


def test_seconds_count_calls_side_by_side_once_and_pauses_not_at_all():
    """[0, 2], [1, 3] and [2.5, 3.5] overlap, [1.5, 1.6] lies within, [10, 10.5] comes after a pause: 3.5 + 0.5."""
    spans = [(10.0, 0.5), (2.5, 1.0), (0.0, 2.0), (1.0, 2.0), (1.5, 0.1)]
    ledger = [call(str(n), started=start, seconds=length) for n, (start, length) in enumerate(spans)]
    assert cost_of(ledger)["seconds"] == pytest.approx(4.0)


def test_touching_spans_are_added_and_the_sum_is_rounded_to_milliseconds():
    ledger = [call("a", started=1.0, seconds=1.0), search("b", started=2.0, seconds=0.12345)]
    assert cost_of(ledger)["seconds"] == 1.123
