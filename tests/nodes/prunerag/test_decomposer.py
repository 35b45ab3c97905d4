"""Which branches a node of PruneRAG's tree has, and how the prompt puts them."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from nodes.prunerag.context import PruneContext
from nodes.prunerag.decomposer import _choices, _expanded, _output, gated, open_branches
from nodes.prunerag.tree import new_node


@pytest.mark.parametrize(
    ("ablate", "depth", "barred", "branches"),
    [
        ([], 1, False, ("answer", "query", "entity")),
        ([], 2, False, ("answer", "query", "entity")),
        ([], 2, True, ("query", "entity")),
        ([], 3, False, ("answer",)),
        (["answer"], 1, False, ("query", "entity")),
        (["answer"], 3, False, ()),
        (["entity"], 1, False, ("answer", "query", "none")),
        (["entity"], 1, True, ("query", "none")),
        (["adaptive"], 2, False, ("query",)),
        (["adaptive"], 3, False, ("answer",)),
        (["adaptive", "answer"], 3, False, ()),
        (["adaptive", "answer"], 2, False, ("query",)),
        (["confidence"], 1, False, ("answer", "query", "entity")),
    ],
)
def test_branches_are_open_by_level_ablation_and_whether_an_answer_was_rejected(ablate, depth, barred, branches):
    assert open_branches(PruneContext(ablate=ablate, max_depth=3), depth, barred) == branches


@pytest.mark.parametrize(
    ("ablate", "expected"),
    [([], True), (["confidence"], False), (["adaptive"], False), (["answer", "entity"], True)],
)
def test_two_ablations_do_without_the_gate(ablate, expected):
    assert gated(PruneContext(ablate=ablate)) is expected


@pytest.mark.parametrize(("branching", "number"), [(2, "two"), (3, "three"), (4, "four")])
def test_a_split_has_as_many_slots_as_the_branching(branching, number):
    text = _choices(("answer", "query"), branching)
    slots = ", ".join(['"..."'] * branching)
    assert f"[{slots}]" in text
    assert f"{number} simpler queries" in text
    read = _output(("query", "entity"), branching).model_validate
    for size in range(1, 6):
        queries = {"type": "query", "queries": ["q"] * size}
        if size == branching:
            assert len(read(queries).root.queries) == size
        else:
            with pytest.raises(ValidationError):
                read(queries)
        entities = {"type": "entity", "entities": ["e"] * size}
        if size <= branching:
            assert len(read(entities).root.entities) == size
        else:
            with pytest.raises(ValidationError):
                read(entities)
    with pytest.raises(ValidationError):
        read({"type": "entity", "entities": []})


def test_where_only_an_answer_is_open_it_may_be_empty():
    assert "an empty answer" in _choices(("answer",), 2)
    assert "an empty answer" not in _choices(("answer", "query", "entity"), 2)


NODE = {**new_node(None, 0, "Who?"), "branches": ["from before"]}


def answer(text, logprobs, by_confidence=True):
    return _expanded(NODE, SimpleNamespace(type="answer", answer=text), logprobs, by_confidence)


def test_confidence_is_the_exponential_of_the_mean_log_probability():
    """Eq. 4."""
    found = answer(" Ann  Lee ", [-0.1, -0.2, -0.6])
    assert (found["answer"], found["branches"]) == ("Ann Lee", [])
    assert found["confidence"] == pytest.approx(math.exp(-0.3), abs=1e-6)
    assert found["confidence"] == round(math.exp(-0.3), 6)
    assert answer("Ann", [])["confidence"] == 0.0
    assert answer("", [-0.1])["confidence"] == 0.0
    assert answer("unknown", [-0.1])["confidence"] == 0.0
    assert answer("Ann", [-0.1], by_confidence=False)["confidence"] is None


def test_sub_queries_and_entities_that_are_empty_are_left_out():
    split = _expanded(NODE, SimpleNamespace(type="query", queries=["a?", "  ", "b?"]), [], True)
    assert (split["verdict"], split["branches"]) == ("split", ["a?", "b?"])
    found = _expanded(NODE, SimpleNamespace(type="entity", entities=["Ann", "ann", ""]), [], True)
    assert (found["verdict"], found["branches"]) == ("abstracted", ["Ann"])
    assert _expanded(NODE, None, [], True) == NODE
