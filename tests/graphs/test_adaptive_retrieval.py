"""Adaptive Retrieval as a whole, played by a scripted model behind real HTTP."""

from __future__ import annotations

import pytest

from hopgraph import load
from inference.ledger import cost_of
from nodes.adaptive_retrieval.popularity import named_in, subjects
from stores.build import build_index
from stores.passages import Passage
from tests.graphs.conftest import by_node, steps_of

RARE, POPULAR, NONE = "Where was Ann Lee born?", "Which country is Paris the capital of?", "who said that?"
CONTEXTS = [
    {"title": "Ann Lee", "text": "Ann Lee was born in Paris."},
    {"title": "Paris", "text": "Paris is the capital of France."},
    {"title": "Seine", "text": "The Seine flows through PARIS."},
    {"title": "Parish", "text": "A parish is a part of a diocese."},
]
LINES = {"generator": {"answer": "from memory"}, "reader": {"answer": "from passages"}}


async def run(question, **context):
    given = {"question": question, "contexts": CONTEXTS}
    return dict(await load("adaptive_retrieval").ainvoke(given, context={"popular_from": 2, **context}))


def costs(state):
    cost = cost_of(state["ledger"])
    return cost["calls"], cost["searches"], cost["steps"]


async def test_a_question_about_a_rare_entity_is_searched_for(model):
    server = model(by_node(**LINES))
    state = await run(RARE)
    assert server.nodes() == ["reader"]
    assert state["answer"] == "from passages"
    row = steps_of(state)["root/popularity"]
    assert (row["kind"], row["answer"]) == ("route", "retrieval")
    assert row["verdict"] == "the rarest entity, Ann Lee, is in 1 passage"


async def test_a_question_about_a_popular_entity_is_answered_from_memory(model):
    server = model(by_node(**LINES))
    state = await run(POPULAR)
    assert server.nodes() == ["generator"]
    assert (state["answer"], state["evidence"], costs(state)) == ("from memory", [], (1, 0, 0))
    assert "<passage" not in server.requests[-1].prompt
    assert steps_of(state)["root/popularity"]["verdict"] == "the rarest entity, Paris, is in 3 passages"


@pytest.mark.parametrize(("bound", "retrieves"), [(2, False), (3, False), (4, True)])
async def test_an_entity_is_popular_from_the_bound_on(model, bound, retrieves):
    model(by_node(**LINES))
    state = await run(POPULAR, popular_from=bound)
    assert (state["answer"] == "from passages") == retrieves


async def test_without_an_entity_there_is_a_search(model):
    model(by_node(**LINES))
    state = await run(NONE)
    assert state["answer"] == "from passages"
    assert steps_of(state)["root/popularity"]["verdict"] == "no entity"


async def test_the_index_that_is_searched_says_how_popular_an_entity_is(model):
    model(by_node(**LINES))
    build_index("small", [Passage(id=row["title"], **row) for row in CONTEXTS])
    for question, answer, searches in (
        (RARE, "from passages", 1),
        (POPULAR, "from memory", 0),
        (RARE, "from passages", 1),
    ):
        context = {"index": "small", "popular_from": 2}
        state = await load("adaptive_retrieval").ainvoke({"question": question}, context=context)
        assert (state["answer"], costs(state)) == (answer, (1, searches, searches))


async def test_its_paths_ask_what_the_methods_they_stand_for_ask(model):
    for question, method in ((POPULAR, "no_retrieval"), (RARE, "standard_rag")):
        server = model(by_node(**LINES))
        await run(question)
        other = model(by_node(generator={"answer": "x"}))
        await load(method).ainvoke({"question": question, "contexts": CONTEXTS}, context={})
        assert [request.prompt for request in server.requests] == [request.prompt for request in other.requests]


def test_names_count_as_whole_words_and_dates_are_no_subjects():
    passages = [Passage(id=row["title"], **row) for row in CONTEXTS]
    assert named_in(passages, ["paris", "Lyon"]) == {"paris": 3, "Lyon": 0}
    assert subjects("Where was Ann Lee born in 1950?") == ["Ann Lee"]
