"""Adaptive-RAG as a whole, played by a scripted model behind real HTTP."""

from __future__ import annotations

import pytest

from hopgraph import load
from hopgraph.run import make_context
from inference.errors import InputError, StoreError
from inference.heads import revelator
from inference.ledger import cost_of
from stores.build import build_index
from stores.passages import Passage
from tests.graphs.conftest import by_node, steps_of

QUESTION = "Where was the director of Alpha born?"
FIRST = "It was made by Ann Lee."
CONTEXTS = [
    {"title": "Alpha", "text": "Alpha is a film whose director is Ann Lee."},
    {"title": "Ann Lee", "text": "Ann Lee was born in Paris."},
    {"title": "Noise", "text": "Bananas are yellow."},
]
LINES = {
    "generator": {"answer": "Rome"},
    "single_step_reader": {"answer": "Oslo"},
    "reasoner": [{"sentence": FIRST}, {"sentence": "So the answer is: Paris."}],
    "multi_step_reader": {"thought": "Ann Lee directed it.", "answer": "Paris"},
}


def lines(route):
    return by_node(router={"route": route}, **LINES)


async def run(**context):
    given = {"question": QUESTION, "contexts": CONTEXTS}
    return dict(await load("adaptive_rag").ainvoke(given, context={"top_k": 1, **context}))


def costs(state):
    cost = cost_of(state["ledger"])
    return cost["calls"], cost["searches"], cost["steps"]


async def test_a_question_of_class_a_is_answered_without_a_search(model):
    server = model(lines("no_retrieval"))
    state = await run()
    assert server.nodes() == ["router", "generator"]
    assert (state["answer"], state["evidence"], costs(state)) == ("Rome", [], (2, 0, 0))
    assert "<passage" not in server.requests[-1].prompt


async def test_a_question_of_class_b_takes_one_search(model):
    server = model(lines("single_step"))
    build_index("small", [Passage(id=row["title"], **row) for row in CONTEXTS])
    context = {"index": "small", "top_k": 2, "max_passages": 1}  # the latter is a bound of the other path
    state = await load("adaptive_rag").ainvoke({"question": QUESTION}, context=context)
    assert server.nodes() == ["router", "single_step_reader"]
    assert (state["answer"], len(state["evidence"]), costs(state)) == ("Oslo", 2, (2, 1, 1))


async def test_a_question_of_class_c_is_searched_for_and_reasoned_about_in_turn(model):
    server = model(lines("multi_step"))
    state = await run()
    assert server.nodes() == ["router", "reasoner", "reasoner", "multi_step_reader"]
    found = steps_of(state)
    assert list(found) == [
        "root/router", "root/1", "root/1/reasoner", "root/2", "root/2/reasoner", "root/multi_step_reader",
    ]  # fmt: skip
    assert (found["root/router"]["kind"], found["root/router"]["answer"]) == ("route", "multi_step")
    assert found["root/2"]["question"] == FIRST
    assert [ref["title"] for ref in state["evidence"]] == ["Alpha", "Ann Lee"]
    assert (state["answer"], costs(state)) == ("Paris", (4, 2, 2))


async def test_its_paths_ask_what_the_methods_they_stand_for_ask(model):
    for route, method in (("no_retrieval", "no_retrieval"), ("single_step", "standard_rag"), ("multi_step", "ircot")):
        server = model(lines(route))
        await run()
        own = [request.prompt for request in server.requests[1:]]
        server = model(by_node(**LINES | {"generator": {"thought": "", "answer": "x"}}))
        await load(method).ainvoke({"question": QUESTION, "contexts": CONTEXTS}, context={"top_k": 1})
        assert own[0] == server.requests[0].prompt


async def test_the_bounds_of_the_chain_of_thought_hold(model):
    server = model(by_node(**LINES | {"router": {"route": "multi_step"}, "reasoner": {"sentence": FIRST}}))
    state = await run(max_steps=3, max_passages=1)
    assert server.nodes().count("reasoner") == 3
    assert len(state["evidence"]) == 1


@pytest.mark.parametrize("bad", ["B", '{"route": "D"}', "{}"])
async def test_a_route_that_cannot_be_read_is_single_step_and_says_so(model, bad):
    server = model(by_node(**LINES | {"router": bad}))
    state = await run()
    assert server.nodes() == ["router", "router", "single_step_reader"]
    assert "taken for a single-step one" in steps_of(state)["root/router"]["fallback"]
    assert state["answer"] == "Oslo"


async def test_a_route_can_be_given(model):
    server = model(lines("no_retrieval"))
    state = await run(route="single_step")
    assert server.nodes() == ["single_step_reader"]
    assert steps_of(state)["root/router"]["answer"] == "single_step (given)"
    with pytest.raises(InputError, match="route: "):
        make_context("adaptive_rag", {"route": "complex"})


@pytest.mark.parametrize(
    ("probabilities", "route", "score"),
    [
        ((0.4, 0.2, 0.2, 0.2), "no_retrieval", 0.4),
        ((0.35, 0.2, 0.2, 0.25), "multi_step", 0.45),
        ((0.1, 0.6, 0.3, 0.0), "single_step", 0.6),
    ],
)
async def test_the_encoder_s_routes_are_added_up_to_classes(model, monkeypatch, probabilities, route, score):
    monkeypatch.setattr(
        revelator, "route", lambda qs: [revelator.RoutePrediction("complex", probabilities) for _ in qs]
    )
    server = model(lines("none"))
    state = await run(router="encoder")
    assert "router" not in server.nodes()
    row = steps_of(state)["root/router"]
    assert (row["answer"], row["score"], state["route"]) == (f"{route} (by the encoder)", score, route)


async def test_an_encoder_without_weights_is_said_before_anything_is_spent(model, monkeypatch):
    def missing(questions):
        raise StoreError("the weights of revelator.npz can't be read")

    monkeypatch.setattr(revelator, "route", missing)
    server = model(lines("single_step"))
    with pytest.raises(StoreError, match=r"revelator\.npz"):
        await run(router="encoder")
    assert server.requests == []


async def test_the_trained_encoder_sorts_plain_cases(model):
    model(lines("none"))
    state = await load("adaptive_rag").ainvoke(
        {"question": "Where was the mother of the director of the film Northern Lights born?", "contexts": CONTEXTS},
        context={"router": "encoder"},
    )
    assert state["route"] == "multi_step"


async def test_answers_that_cannot_be_read_fail_the_run_and_abstentions_do_not(model):
    for route, node in (("no_retrieval", "generator"), ("single_step", "single_step_reader")):
        model(by_node(**LINES | {"router": {"route": route}, node: "nonsense"}))
        state = await run()
        assert (state["status"], state["error"]["node"]) == ("failed", node)
        model(by_node(**LINES | {"router": {"route": route}, node: {"answer": "Not Answerable"}}))
        assert (await run())["status"] == "unanswerable"


async def test_each_of_its_prompts_can_be_replaced_and_a_bad_one_is_named_by_its_field(model):
    server = model(lines("multi_step"))
    await run(
        prompt_multi_step="READER {{evidence}} {{question}}", prompt_single_step="SINGLE {{evidence}} {{question}}"
    )
    assert server.requests[-1].prompt.startswith("READER")
    with pytest.raises(InputError, match="prompt_multi_step"):
        await run(prompt_multi_step="{{evidense}}")


@pytest.mark.parametrize("route", ["no_retrieval", "single_step", "multi_step"])
async def test_cut_off_at_any_call_it_goes_on(cut_at_every_call, route):
    whole = await cut_at_every_call("adaptive_rag", lambda: lines(route), QUESTION, CONTEXTS, top_k=1)
    assert whole["status"] == "answered"


def test_the_paper_s_settings():
    context = make_context("adaptive_rag", {"preset": "paper"})
    assert (context.mode, context.model_dump()["router"]) == ("sparse", "encoder")
