"""PruneRAG's queue and brancher: what a level costs, and what its children are."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nodes.prunerag.brancher import brancher
from nodes.prunerag.context import PruneContext
from nodes.prunerag.queue import queue
from nodes.prunerag.tree import new_node

ROOT = {**new_node(None, 0, "Who is older?"), "searches": 1}


def runtime(**settings):
    return SimpleNamespace(context=PruneContext(**settings))


@pytest.fixture(autouse=True)
def _steps_of_no_node(monkeypatch):
    monkeypatch.setattr("nodes.kit.steps.node_name", lambda: "queue")


async def level(*nodes, **settings):
    """What the queue reserves, by id, and the level's ids."""
    found = await queue({"question": "Who is older?", "tree": list(nodes), "trajectory": []}, runtime(**settings))
    return {one["id"]: one["searches"] for one in found["tree"]}, found["frontier"]


def entities(number, *names):
    return new_node(ROOT, number, "q", kind="entity", entities=names)


async def test_the_first_level_is_the_root_with_one_search():
    assert await level() == ({"root": 1}, ["root"])


async def test_a_query_takes_one_search_and_an_entity_node_one_an_entity():
    root = {**ROOT, "verdict": "split"}
    nodes = [new_node(root, 1, "b"), entities(0, "x", "y")]
    assert await level(root, *nodes) == ({"root/0": 2, "root/1": 1}, ["root/0", "root/1"])


@pytest.mark.parametrize(
    ("budget", "reserved", "frontier"),
    [
        (5, {"root/0": 2, "root/1": 1, "root/2": 1}, ["root/0", "root/1", "root/2"]),
        (4, {"root/0": 2, "root/1": 1, "root/2": 0}, ["root/0", "root/1"]),
        (3, {"root/0": 2, "root/1": 0, "root/2": 0}, ["root/0"]),
        (2, {"root/0": 1, "root/1": 0, "root/2": 0}, ["root/0"]),
        (1, {"root/0": 0, "root/1": 0, "root/2": 0}, []),
    ],
)
async def test_the_budget_is_spent_left_to_right_and_never_exceeded(budget, reserved, frontier):
    root = {**ROOT, "verdict": "split"}
    nodes = [new_node(root, 2, "c"), new_node(root, 1, "b"), entities(0, "x", "y")]
    assert await level(root, *nodes, max_searches=budget) == (reserved, frontier)


async def test_what_gets_no_search_is_evidence_and_its_step_says_so():
    root = {**ROOT, "verdict": "split"}
    state = {"question": "Q", "tree": [root, new_node(root, 0, "a")], "trajectory": []}
    found = await queue(state, runtime(max_searches=1))
    assert [(one["verdict"], one["pruned"]) for one in found["tree"]] == [("evidence", "the search budget is spent")]
    assert [row["verdict"] for row in found["trajectory"]] == ["pruned: the search budget is spent"]


async def grown(*nodes, frontier=("root",), **settings):
    state = {"tree": list(nodes), "frontier": list(frontier), "trajectory": []}
    found = await brancher(state, runtime(**settings))
    return {one["id"]: one for one in found["tree"]}


async def test_a_split_has_a_query_node_a_sub_query_and_an_abstraction_one_entity_node():
    made = await grown({**ROOT, "verdict": "split", "branches": ["a?", "b?"]})
    assert [(one["id"], one["kind"], one["query"]) for one in made.values()] == [
        ("root/0", "query", "a?"),
        ("root/1", "query", "b?"),
    ]
    made = await grown({**ROOT, "verdict": "abstracted", "branches": ["Ann", "Bob"]})
    assert [(one["id"], one["kind"], one["entities"]) for one in made.values()] == [
        ("root/0", "entity", ["Ann", "Bob"])
    ]


async def test_without_anything_usable_a_node_ends_as_evidence():
    for verdict in ("split", "abstracted"):
        made = await grown({**ROOT, "verdict": verdict, "branches": []})
        assert (made["root"]["verdict"], made["root"]["pruned"]) == ("evidence", "nothing usable was proposed")


async def test_only_undecided_nodes_of_the_level_grow():
    split = {**ROOT, "verdict": "split", "branches": ["a?"]}
    assert await grown(split, frontier=[]) == {}
    assert await grown({**split, "verdict": "accepted"}) == {}
    assert await grown(split, new_node(split, 0, "a?")) == {}, "it has its children"


async def test_of_two_siblings_that_ask_the_same_the_second_is_an_entity_node():
    made = await grown({**ROOT, "verdict": "split", "branches": ["a?", "A"]})
    assert [one["kind"] for one in made.values()] == ["query", "entity"]
    assert made["root/1"]["pruned"] == "asks the same as root/0"
    for ablate in ("entity", "adaptive"):
        made = await grown({**ROOT, "verdict": "split", "branches": ["a?", "A"]}, ablate=[ablate])
        assert (made["root/1"]["kind"], made["root/1"]["verdict"]) == ("query", "evidence")


async def test_an_answered_query_is_not_asked_again_unless_every_node_has_to_split():
    left = {**new_node(ROOT, 0, "Left?"), "verdict": "accepted", "answer": "L", "confidence": 0.97}
    right = {**new_node(ROOT, 1, "Right?"), "verdict": "split", "branches": ["left", "other?"]}
    tree = [{**ROOT, "verdict": "split", "branches": ["x"]}, left, right]
    made = await grown(*tree, frontier=["root/1"])
    known = made["root/1/0"]
    assert (known["verdict"], known["answer"], known["result"], known["confidence"]) == ("accepted", "L", "L", 0.97)
    assert made["root/1/1"]["verdict"] == "open"
    made = await grown(*tree, frontier=["root/1"], ablate=["adaptive"])
    assert made["root/1/0"]["verdict"] == "open"
