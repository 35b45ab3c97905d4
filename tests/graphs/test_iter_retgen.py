"""Iter-RetGen as a whole, played by a scripted model behind real HTTP."""

from __future__ import annotations

import pytest

from hopgraph import load
from hopgraph.run import make_context
from inference.ledger import cost_of
from tests.graphs.conftest import by_node, steps_of

QUESTION = "Where was the director of Alpha born?"
CONTEXTS = [
    {"title": "Alpha", "text": "Alpha is a film whose director is Ann Lee."},
    {"title": "Ann Lee", "text": "Ann Lee grew up in Paris by the Seine, painting harbours and gulls."},
    {"title": "Noise", "text": "Bananas are yellow."},
]
UNKNOWN = {
    "thought": "Ann Lee made it; where Ann Lee grew up, painting gulls and harbours by the Seine, is missing.",
    "answer": "Not Answerable",
}
KNOWN = {"thought": "Ann Lee made it and grew up in Paris.", "answer": "Paris"}


async def run(**context):
    given = {"question": QUESTION, "contexts": CONTEXTS}
    return dict(await load("iter_retgen").ainvoke(given, context={"top_k": 1, **context}))


async def test_each_search_goes_out_from_the_question_and_the_draft_before_it(model):
    server = model(by_node(drafter=[UNKNOWN, KNOWN]))
    state = await run()
    assert server.nodes() == ["drafter"] * 4
    found = steps_of(state)
    assert [found[f"root/{n}"]["question"] for n in (1, 2, 3, 4)] == [
        QUESTION,
        f"{QUESTION} {UNKNOWN['thought']}",
        f"{QUESTION} {KNOWN['thought']} Paris",
        f"{QUESTION} {KNOWN['thought']} Paris",
    ]
    assert found["root/1"]["evidence"] != found["root/2"]["evidence"]
    assert [found[f"root/{n}/drafter"]["verdict"] for n in (1, 2)] == ["unanswerable", "answered"]
    assert found["root/2/drafter"]["parent"] == "root/2"
    assert (state["answer"], state["status"], state["error"]) == ("Paris", "answered", None)
    cost = cost_of(state["ledger"])
    assert (cost["calls"], cost["searches"], cost["steps"], cost["chain"]) == (4, 4, 4, 4)


async def test_a_draft_is_written_from_the_latest_search_alone(model):
    server = model(by_node(drafter=[UNKNOWN, KNOWN]))
    state = await run(iterations=2)
    first, second = (request.prompt for request in server.requests)
    assert "whose director is Ann Lee" in first
    assert "whose director is Ann Lee" not in second
    assert UNKNOWN["thought"] not in second
    assert [ref["title"] for ref in state["evidence"]] == ["Ann Lee"]


async def test_one_iteration_is_one_search_and_one_answer(model):
    server = model(by_node(drafter=KNOWN))
    state = await run(iterations=1)
    assert server.nodes() == ["drafter"]
    assert state["answer"] == "Paris"


async def test_the_last_answer_counts(model):
    model(by_node(drafter=[KNOWN, UNKNOWN]))
    state = await run(iterations=2)
    assert (state["answer"], state["status"]) == ("", "unanswerable")


@pytest.mark.parametrize("bad", ["Paris", '{"answer": "Paris"}'])
async def test_a_draft_that_cannot_be_read_leaves_the_answer_before_it(model, bad):
    server = model(by_node(drafter=[KNOWN, bad]))
    state = await run(iterations=3)
    assert server.nodes() == ["drafter"] * 5, "each of the two is repaired once"
    assert (state["answer"], state["status"], state["error"]) == ("Paris", "answered", None)
    found = steps_of(state)
    assert "the answer before it stands" in found["root/2/drafter"]["fallback"]
    assert found["root/3"]["question"] == f"{QUESTION} {KNOWN['thought']} Paris"


async def test_a_run_none_of_whose_drafts_can_be_read_has_failed(model):
    model(by_node(drafter="nonsense"))
    state = await run(iterations=2)
    assert (state["answer"], state["status"], state["error"]["kind"]) == ("", "failed", "model_output")
    model(by_node(drafter=["nonsense", "nonsense", KNOWN]))
    state = await run(iterations=2)
    assert (state["answer"], state["status"], state["error"]) == ("Paris", "answered", None)


async def test_where_nothing_is_found_the_model_answers_from_nothing(model, home):
    from stores.build import build_index
    from stores.passages import Passage

    build_index("small", [Passage("banana", "Banana", "Bananas are yellow.")])
    server = model(by_node(drafter=UNKNOWN))
    context = {"index": "small", "retriever": "sparse", "iterations": 1}
    state = await load("iter_retgen").ainvoke({"question": QUESTION}, context=context)
    assert "(none)" in server.requests[0].prompt
    assert (state["status"], state["evidence"]) == ("unanswerable", [])


async def test_cut_off_at_any_call_it_goes_on(cut_at_every_call):
    whole = await cut_at_every_call("iter_retgen", lambda: by_node(drafter=[UNKNOWN, KNOWN]), QUESTION, CONTEXTS)
    assert whole["answer"] == "Paris"


def test_the_paper_s_settings():
    context = make_context("iter_retgen", {"preset": "paper"})
    assert context.mode == "dense"
    assert context.model_dump()["iterations"] == 4
