"""Nodes that several methods share, each on its own: router, retriever, and what an answer is written from."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from inference.errors import InputError
from nodes import router as routing
from nodes.baselines.context import AdaptiveContext
from nodes.generator import passages_or_sentences
from nodes.hanrag.context import HanContext
from nodes.hanrag.routes import RouteChoice
from nodes.intake import store_given
from nodes.kit import deadlines, place, tracers
from nodes.retriever import retriever


@pytest.fixture(autouse=True)
def _in_a_node(monkeypatch):
    for module in (deadlines, place, tracers):
        monkeypatch.setattr(module, "get_config", lambda: {"metadata": {"langgraph_node": "node"}})


def runtime(context):
    return SimpleNamespace(context=context, stream_writer=lambda event: None, control=None, execution_info=None)


async def route(monkeypatch, classes, given=None, **settings):
    shares = SimpleNamespace(probabilities=[0.1234567, 0.2, 0.3, 0.3765433])
    monkeypatch.setattr(routing.revelator, "route", lambda questions: [shares])
    node = routing.router("hanrag/router", output=RouteChoice, falls_under=classes)
    return await node({"question": "Who?", "route": given}, runtime(HanContext(**settings)))


async def test_the_encoder_s_route_is_the_one_with_the_most_probability_of_all_its_classes(monkeypatch):
    each = {name: name for name in routing.revelator.ROUTES}
    last = routing.revelator.ROUTES[-1]
    update = await route(monkeypatch, each, router="encoder")
    [row] = update["trajectory"]
    assert (update["route"], row["answer"], row["score"]) == (last, f"{last} (by the encoder)", 0.376543)
    first, second, third, fourth = routing.revelator.ROUTES
    merged = {first: "easy", second: "easy", third: "easy", fourth: "hard"}
    update = await route(monkeypatch, merged, router="encoder")
    assert (update["route"], update["trajectory"][0]["score"]) == ("easy", 0.623457)


@pytest.mark.parametrize("settings", [{}, {"router": "oracle"}, {"router": "encoder"}])
async def test_a_given_route_is_taken_unasked(monkeypatch, settings):
    update = await route(monkeypatch, {}, given="complex", **settings)
    assert (update["route"], update["trajectory"][0]["answer"]) == ("complex", "complex (given)")
    update = await route(monkeypatch, {}, route="compound", **settings)
    assert update["route"] == "compound", "for all questions"


async def test_the_oracle_router_needs_the_route(monkeypatch):
    with pytest.raises(InputError, match="gold_route: the oracle router needs it"):
        await route(monkeypatch, {}, router="oracle")


TEXTS = ["Tide is a film by Ann Lee.", "Ann Lee was born in Paris.", "Bananas are yellow."]


@pytest.fixture
def given(home):
    return store_given([{"title": f"T{number}", "text": text} for number, text in enumerate(TEXTS)])


async def retrieve(given, queries=("Who directed Tide?",), pool=(), **options):
    node = retriever(queries=lambda state: list(queries), **options)
    state = {"question": "Q", "given": given, "index": None, "pool": list(pool)}
    update = await node(state, runtime(HanContext(top_k=2)))
    return [ref["title"] for ref in update["pool"]], update


def searched(context):
    return True


async def test_given_passages_are_all_taken_unless_they_are_ranked(given):
    titles, update = await retrieve(given)
    assert titles == ["T0", "T1", "T2"]
    assert {ref["score"] for ref in update["pool"]} == {0.0}
    [row] = update["trajectory"]
    assert (row["id"], row["searches"]) == ("root/retriever/1", 0)
    assert row["answer"] == "3 passages given with the question, 3 of them not from an index"
    assert "ledger" not in update
    titles, update = await retrieve(given, ranks_given=searched)
    assert titles == ["T0", "T1"]
    assert [(step["id"], step["searches"]) for step in update["trajectory"]] == [("root/retriever/1", 1)]


async def test_queries_are_merged_rank_by_rank_each_once(given):
    queries = ["Who directed Tide?", "Which fruits are yellow?", "Who directed Tide?"]
    titles, update = await retrieve(given, queries, ranks_given=searched)
    assert titles == ["T0", "T2"]
    assert [step["id"] for step in update["trajectory"]] == ["root/retriever/1", "root/retriever/2"]


async def test_a_query_that_is_alone_may_bring_more(given):
    options = {"ranks_given": searched, "alone": lambda context: 3, "limit": lambda context: 3}
    assert len((await retrieve(given, **options))[0]) == 3
    both = await retrieve(given, ["Who directed Tide?", "Which fruits are yellow?"], top_k=lambda context: 1, **options)
    assert both[0] == ["T0", "T2"]


async def test_a_pool_grows_or_is_replaced(given):
    old = [{"id": "old", "title": "Old", "score": 1.0}]
    options = {"ranks_given": searched, "limit": lambda context: 3}
    assert (await retrieve(given, pool=old, **options))[0] == ["T0", "T1"]
    assert (await retrieve(given, pool=old, grows=True, **options))[0] == ["Old", "T0", "T1"]
    assert (await retrieve(given, pool=old, grows=True, ranks_given=searched))[0] == ["Old", "T0"], "up to its limit"


async def test_one_query_s_step_may_have_an_id_of_its_own(given):
    _, update = await retrieve(given, ranks_given=searched, at=lambda state: "root/7")
    assert [step["id"] for step in update["trajectory"]] == ["root/7"]


@pytest.mark.parametrize(
    ("sentences", "shown"),
    [
        ([(0, 1), (0, 0), (1, 1)], [(1, "1.0"), (1, "1.1"), (2, "2.1")]),
        ([(1, 0), (1, 2), (0, -1)], [(2, "2.0")]),
    ],
)
async def test_chosen_sentences_are_shown_by_passage_in_their_order(home, sentences, shown):
    rows = [{"title": f"T{n}", "text": "x", "sentences": [f"First {n}.", f"Second {n}."]} for n in range(2)]
    ids = store_given(rows)
    refs = [(ids[number], index) for number, index in sentences]
    state = {"given": ids, "index": None, "evidence": [{"id": key} for key in ids], "sentences": refs}
    blocks = await passages_or_sentences(state, SimpleNamespace(answer_from="sentences"))
    labels = [line.split("]")[0][1:] for block in blocks for line in block.splitlines() if line.startswith("[")]
    assert labels == [label for _, label in shown]
    assert len(blocks) == len({number for number, _ in shown})
    whole = await passages_or_sentences(state, SimpleNamespace(answer_from="passages"))
    assert [block.splitlines()[0] for block in whole] == [
        '<passage number="1" title="T0">', '<passage number="2" title="T1">',
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("router", "looked_for", "oracle"), [("model", 0, ""), ("encoder", 1, ""), ("oracle", 0, "complexity")]
)
def test_adaptive_rag_looks_for_what_says_how_complex_a_question_is(monkeypatch, router, looked_for, oracle):
    questions = []
    monkeypatch.setattr("inference.heads.revelator.route", questions.append)
    context = AdaptiveContext(router=router)
    context.check()
    assert len(questions) == looked_for
    assert context.oracle == oracle
