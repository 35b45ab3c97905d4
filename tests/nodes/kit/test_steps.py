"""Steps of the trajectory: what they say of a node's work, and what of its output's problems."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nodes.kit.steps import Work, logged, step


def test_a_step_is_of_the_running_node_and_has_done_nothing(config):
    row = step("root/1", "judge")
    assert (row["node"], row["parent"]) == ("adder", "root")
    assert (row["calls"], row["searches"], row["truncated"], row["score"]) == (0, 0, 0, None)
    assert step("root/1", "judge", node="merger")["node"] == "merger"


@pytest.mark.parametrize(
    ("work", "said", "fallback"),
    [
        ({}, {}, ""),
        ({}, {"instead": "nothing was added"}, ""),
        ({"problem": "no JSON"}, {"instead": "nothing was added"}, "no JSON; nothing was added"),
        ({"problem": "no JSON"}, {"problem": "an empty plan"}, "no JSON"),
        ({}, {"problem": "an empty plan", "instead": "the question"}, "an empty plan; the question"),
        ({"cut": "one text was cut"}, {"instead": "nothing was added"}, "one text was cut"),
        ({"problem": "no JSON", "cut": "cut"}, {"instead": "none"}, "no JSON; none; cut"),
    ],
)
def test_a_fallback_is_named_where_there_is_a_problem(work, said, fallback):
    made = Work(at="root/1", node="adder", calls=[{}, {}], **work).step("judge", **said)
    assert (made["fallback"], made["calls"], made["node"], made["truncated"]) == (fallback, 2, "adder", 0)


def test_only_output_that_can_not_be_used_fails_a_run():
    assert Work(at="root", node="adder").error is None
    error = Work(at="root", node="adder", problem="no JSON").error
    assert error == {"kind": "model_output", "message": "no JSON", "node": "adder"}


def test_an_update_has_the_steps_and_the_calls_of_all_work(config):
    one, other = step("root/1", "judge"), step("root/2", "judge")
    first, second = SimpleNamespace(calls=[{"id": "a"}]), SimpleNamespace(calls=[{"id": "b"}, {"id": "c"}])
    assert logged(one) == {"trajectory": [one]}
    assert logged([one, other]) == logged((one, other)) == {"trajectory": [one, other]}
    assert logged([], first, second) == {"ledger": [{"id": "a"}, {"id": "b"}, {"id": "c"}]}
