"""The tree that the steps of a run make."""

from __future__ import annotations

import pytest

from hopgraph.methods import METHODS, load
from hopgraph.run import ask, make_context
from hopgraph.views.steps import nested
from nodes.kit.steps import step
from stores.checkpoints import open_checkpoints
from tests.replies import proper_text
from tests.small import INDEX, QUESTION, build_small


def ids(rows):
    return [row.step["id"] for row in rows]


def neighbours(rows):
    """Siblings that stand one after the other, anywhere in the tree."""
    yield from zip(ids(rows), ids(rows)[1:], strict=False)
    for row in rows:
        yield from neighbours(row.below)


def test_branches_come_by_number_and_children_under_their_parents():
    made = ["root/again", "root/2", "root/2/a", "root/1", "root/10", "root/end"]
    rows = nested([step(key, "answer", node="n", parent=key.rpartition("/")[0]) for key in made])
    assert ids(rows) == ["root/again", "root/1", "root/2", "root/10", "root/end"]
    assert ids(rows[2].below) == ["root/2/a"]


def test_numbers_of_different_roles_do_not_mix():
    made = ["root/retriever/2", "root/retriever/1", "root/selector/1", "root/adder/1", "root/selector/2", "root/merger"]
    rows = nested([step(key, "judge", node="n") for key in made])
    assert ids(rows) == ["root/retriever/1", "root/retriever/2", *made[2:]]


@pytest.mark.parametrize("method", METHODS)
async def test_siblings_stand_in_the_order_in_which_the_graph_came_to_them(model, method):
    build_small()
    for seed in range(3):
        model(lambda r, seed=seed: proper_text(r, seed))
        thread = f"{method}-{seed}"
        async with open_checkpoints() as saver:
            result = await ask(QUESTION, make_context(method, {"index": INDEX}), saver, thread=thread)
            state = (await load(method, saver).aget_state({"configurable": {"thread_id": thread}})).values
        # Supersteps of a subgraph are counted anew each time that it runs: those of the outermost graph are compared.
        came = {call["step"]: call["superstep"] for call in reversed(state["ledger"]) if not call["outer"]}
        for before, after in neighbours(nested(result["trajectory"])):
            if before in came and after in came:
                assert came[before] <= came[after], (before, after)
        rows = [came[row["id"]] for row in result["trajectory"] if row["id"] in came]
        assert rows
        assert rows == sorted(rows)
