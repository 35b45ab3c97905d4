"""PruneRAG's confidence gate at its threshold, for every node of a level."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nodes.kit.steps import step
from nodes.prunerag import confidence_gate as gate
from nodes.prunerag.confidence_gate import judged
from nodes.prunerag.context import PruneContext
from nodes.prunerag.tree import new_node

ROOT = new_node(None, 0, "Who?")


def node(number=0, depth=2, **fields):
    return {**new_node(ROOT, number, "Where?"), "depth": depth, **fields}


async def verdicts(*nodes, frontier=None, **settings):
    """The nodes that the gate judges, and the verdicts of their steps."""
    state = {
        "tree": [ROOT, *nodes],
        "frontier": [one["id"] for one in nodes] if frontier is None else frontier,
        "trajectory": [step(one["id"], "answer", node="decomposer", answer=one["answer"]) for one in [ROOT, *nodes]],
    }
    found = await gate.confidence_gate(state, SimpleNamespace(context=PruneContext(**settings), stream_writer=None))
    return found["tree"], {row["id"]: row["verdict"] for row in found.get("trajectory", [])}


@pytest.fixture(autouse=True)
def _nobody_listens(monkeypatch):
    monkeypatch.setattr(gate, "tell_verdicts", lambda runtime, rows: None)


@pytest.mark.parametrize(
    ("confidence", "threshold", "accepted"),
    [(0.95, 0.95, True), (0.949999, 0.95, False), (0.951, 0.95, True), (0.0, 0.0, True), (0.0, 0.5, False)],
)
async def test_an_answer_needs_at_least_the_threshold(confidence, threshold, accepted):
    [found], said = await verdicts(node(answer="Paris", confidence=confidence), threshold=threshold)
    assert found["verdict"] == ("accepted" if accepted else "rejected")
    assert found["result"] == ("Paris" if accepted else None)
    assert said["root/0"] == (
        "accepted" if accepted else f"rejected: confidence {confidence:.3f} is below {threshold:g}"
    )


@pytest.mark.parametrize(("depth", "verdict"), [(2, "rejected"), (3, "evidence"), (1, "rejected")])
async def test_a_rejected_answer_is_asked_again_except_on_the_last_level(depth, verdict):
    [found], said = await verdicts(node(depth=depth, answer="Paris", confidence=0.2), max_depth=3, threshold=0.95)
    assert found["verdict"] == verdict
    last = "its answer was rejected on the last level (confidence 0.200 is below 0.95)"
    assert found["pruned"] == (last if verdict == "evidence" else "")
    assert said["root/0"] == (
        f"pruned: {last}" if verdict == "evidence" else "rejected: confidence 0.200 is below 0.95"
    )


async def test_no_answer_is_rejected_whatever_the_threshold():
    [found], said = await verdicts(node(answer="", confidence=0.0), threshold=0.0)
    assert (found["verdict"], said["root/0"]) == ("rejected", "rejected: empty")
    [found], _ = await verdicts(node(answer="", confidence=None), ablate=["confidence"])
    assert found["verdict"] == "rejected"


@pytest.mark.parametrize("ablate", ["confidence", "adaptive"])
async def test_without_the_gate_every_answer_is_accepted(ablate):
    [found], _ = await verdicts(node(answer="Paris", confidence=None), ablate=[ablate])
    assert found["verdict"] == "accepted"


async def test_only_open_queries_of_the_level_are_judged():
    nodes = [
        node(0, answer="a", confidence=1.0),
        node(1, answer="b", confidence=1.0, kind="entity"),
        node(2, answer="c", confidence=1.0, verdict="split"),
        node(3, answer="d", confidence=1.0),
    ]
    found, _ = await verdicts(*nodes, frontier=["root/0", "root/1", "root/2"])
    assert [one["id"] for one in found] == ["root/0"]


def test_a_person_is_asked_about_the_answers_that_were_judged():
    nodes = [
        node(0, answer="a", verdict="accepted"),
        node(1, answer="b", verdict="rejected"),
        node(2, answer="c", verdict="evidence"),
        node(3, answer="", verdict="rejected"),
        node(4, answer="e", verdict="split"),
        node(5, answer="f", verdict="accepted", kind="entity"),
        node(6, answer="g", verdict="accepted", decided="accept"),
        node(7, answer="h", verdict="accepted"),
    ]
    state = {"tree": nodes, "frontier": [f"root/{number}" for number in range(7)]}
    assert [one["answer"] for one in judged(state)] == ["a", "b", "c"]
