"""No retrieval and Standard RAG, played by a scripted model behind real HTTP."""

from __future__ import annotations

import pytest

from hopgraph import METHODS, load
from inference.errors import InputError
from tests.scripted import MODEL


async def test_no_retrieval_makes_one_call_and_no_search(model):
    server = model(lambda request: {"answer": "Paris"})
    state = await load("no_retrieval").ainvoke({"question": "Where?"}, context={})
    assert state["answer"] == "Paris"
    assert state["evidence"] == []
    assert server.nodes() == ["generator"]
    assert [call["kind"] for call in state["ledger"]] == ["model"]
    assert "<question>Where?</question>" in server.requests[0].prompt


async def test_standard_rag_answers_from_given_passages(model):
    server = model(lambda request: {"answer": "Paris"})
    state = await load("standard_rag").ainvoke(
        {"question": "Where?", "contexts": [{"title": "T", "text": "AT&T's <b> is {a}."}]}, context={}
    )
    assert "AT&T's <b> is {a}." in server.requests[0].prompt
    assert [ref["title"] for ref in state["evidence"]] == ["T"]
    assert [step["node"] for step in state["trajectory"]] == ["retriever", "generator"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("question", ["", "   ", None, 7, "x" * 100_000])
async def test_a_question_that_is_none_is_refused_before_anything_is_spent(model, method, question):
    server = model(lambda request: {"answer": "x"})
    with pytest.raises(InputError, match="question: "):
        await load(method).ainvoke({"question": question, "contexts": [{"title": "T", "text": "x"}]}, context={})
    assert server.requests == []


@pytest.mark.parametrize("method", ["standard_rag", "prism"])
async def test_a_method_that_searches_needs_an_index(model, method):
    model(lambda request: {"answer": "x"})
    with pytest.raises(InputError, match="index is missing"):
        await load(method).ainvoke({"question": "Where?"}, context={})


@pytest.mark.parametrize(
    ("contexts", "message"),
    [
        ([], "contexts: is empty"),
        ("p1", "contexts: must be a list"),
        ([{"title": "T"}], r"contexts\[0\]: must be a passage id or"),
        ([{"title": "T", "text": " "}], r"contexts\[0\]"),
        ([{"title": 3, "text": "x"}], r"contexts\[0\].title"),
        ([{"title": "T", "text": "x"}, {"text": "x", "sentences": "x"}], r"contexts\[1\].sentences"),
        ([7], r"contexts\[0\]"),
    ],
)
async def test_malformed_given_passages_are_named(model, contexts, message):
    model(lambda request: {"answer": "x"})
    with pytest.raises(InputError, match=message):
        await load("standard_rag").ainvoke({"question": "Where?", "contexts": contexts}, context={})


async def test_strange_text_goes_through_whole(model):
    text = "\u202eنص\u0000 emoji 👩‍👩‍👧 \x1b[31m red \ud800 end."
    server = model(lambda request: {"answer": "مرحبا 👋"})
    state = await load("standard_rag").ainvoke(
        {"question": "ما هذا؟ 🤔", "contexts": [{"title": text, "text": text}]}, context={}
    )
    assert state["answer"] == "مرحبا 👋"
    assert "\x1b" not in server.requests[0].prompt
    assert "👩‍👩‍👧" in server.requests[0].prompt


async def test_the_result_says_which_wording_was_used(model):
    model(lambda request: {"answer": "x"})
    given = {"question": "Where?", "contexts": [{"title": "T", "text": "x"}]}
    first = await load("standard_rag").ainvoke(given, context={})
    own = {"prompt_answer": "{{evidence}} {{question}} Answer!"}
    second = await load("standard_rag").ainvoke(given, context=own)
    hashes = [next(c["prompt_hash"] for c in s["ledger"] if c["kind"] == "model") for s in (first, second)]
    assert hashes[0] != hashes[1]


async def test_answers_can_be_written_at_a_server_of_their_own(model, monkeypatch):
    writer = model(lambda _: {"answer": "Paris"})
    monkeypatch.setenv("HOPGRAPH_GENERATOR_URL", writer.url)
    server = model(lambda _: {"answer": "Rome"})
    state = await load("no_retrieval").ainvoke({"question": "Where?"}, context={"model": "one of the other server's"})
    assert state["answer"] == "Paris"
    assert [request.body["model"] for request in writer.requests] == [MODEL]
    assert server.requests == []


async def test_answers_can_be_written_by_another_model_of_the_same_server(model, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_GENERATOR_MODEL", "writer")
    server = model(lambda _: {"answer": "Paris"})
    graph = load("no_retrieval")
    await graph.ainvoke({"question": "Where?"}, context={"model": "reader"})
    await graph.ainvoke({"question": "Where?"}, context={"model": "reader", "generator_model": "reader"})
    assert [request.body["model"] for request in server.requests] == ["writer", "reader"]
