"""The answer's tokens, streamed by endpoints that stream."""

from __future__ import annotations

import asyncio
import threading

import pytest

from hopgraph import load
from inference import endpoint
from inference.errors import EndpointError
from inference.settings import get_settings
from nodes.kit.streaming import answer_so_far
from tests.scripted import Completion, Raw, plausible

GIVEN = {"question": "Where?", "contexts": [{"title": "Ann Lee", "text": "Ann Lee was born in Åbo. She died in Oslo."}]}
ANSWER = "The city of Åbo, in Finland"
REPLY = '{"thought": "The \\"answer\\": none", "answer": "The city of \\u00c5bo, in Finland"}'


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(endpoint, "FIRST_BACKOFF", 0.0)


def answering(*replies):
    """The last node's replies, one after another; others reply as they may."""
    left = list(replies)

    def script(request):
        if request.node != "generator":
            return plausible(request)
        return left.pop(0) if len(left) > 1 else left[0]

    return script


def messages(method="standard_rag", **options):
    """What is streamed: (text, message id, node, id of the message that it replaces)."""
    return [
        (chunk.content, chunk.id, about["langgraph_node"], chunk.response_metadata.get("replaces"))
        for chunk, about in load(method).stream(GIVEN, stream_mode="messages", **options)
    ]


def test_the_answer_comes_in_pieces_as_text_and_not_as_json(model):
    server = model(answering(Completion(REPLY)))
    seen = messages("prism")
    assert "".join(text for text, *_ in seen) == ANSWER
    assert len(seen) > 4
    assert {(node, replaced) for _, _, node, replaced in seen} == {("generator", None)}
    assert len({key for _, key, *_ in seen}) == 1
    assert [r.body["stream"] for r in server.requests if r.node != "generator"] == [False] * (len(server.requests) - 1)


def test_a_piece_is_shown_before_the_reply_ends(model):
    shown = threading.Event()

    def between(number):
        if number == 12:  # by then some of the answer has been sent; without anybody seeing it, it goes no further
            assert shown.wait(30)

    model(answering(Completion('{"answer": "' + ANSWER * 3 + '"}', between=between)))
    for _ in load("standard_rag").stream(GIVEN, stream_mode="messages"):
        shown.set()
    assert shown.is_set()


def test_nothing_is_streamed_when_nobody_listens(model):
    server = model(answering(Completion(REPLY)))
    load("standard_rag").invoke(GIVEN)
    list(load("standard_rag").stream(GIVEN, stream_mode=["updates", "values"]))
    assert [request.body["stream"] for request in server.requests] == [False, False]


async def test_the_ledger_is_as_without_streaming(model):
    model(answering(Completion(REPLY)))
    plain = await load("standard_rag").ainvoke(GIVEN)
    async for mode, chunk in load("standard_rag").astream(GIVEN, stream_mode=["messages", "values"]):
        if mode == "values":
            streamed = chunk
    assert streamed["answer"] == plain["answer"] == ANSWER
    timed = {"started": 0, "seconds": 0}
    assert [call | timed for call in streamed["ledger"]] == [call | timed for call in plain["ledger"]]
    assert streamed["ledger"][0]["completion_tokens"] > 0


def test_a_try_that_broke_off_is_not_shown_twice(model):
    server = model(answering(Completion(REPLY, cut=14), Completion(REPLY)))
    seen = messages()
    assert len(server.requests) == 2
    assert "".join(text for text, *_ in seen) == ANSWER
    assert len({key for _, key, *_ in seen}) == 1


@pytest.mark.parametrize("second", [Completion('{"answer": "Oslo, in Norway"}'), {"answer": "The city"}])
def test_a_try_that_goes_another_way_replaces_what_was_seen(model, second):
    first = Completion('{"answer": "The city of Abo, in Finland"}', cut=6)
    model(answering(first, second))
    seen = messages()
    old, new = list(dict.fromkeys(key for _, key, *_ in seen))
    assert next(replaced for _, key, _, replaced in seen if key == new) == old
    wanted = "Oslo, in Norway" if isinstance(second, Completion) else "The city"
    assert "".join(text for text, key, *_ in seen if key == new) == wanted


def test_a_repaired_reply_replaces_what_was_seen(model):
    model(answering(Completion('{"answer": "The', finish_reason="length"), Completion('{"answer": "Oslo"}')))
    seen = messages()
    assert [(text, bool(replaced)) for text, _, _, replaced in seen] == [("The", False), ("Oslo", True)]


def test_an_error_in_mid_stream_fails_the_run_when_no_try_is_left(model, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "1")
    get_settings.cache_clear()
    body = 'data: {"error": {"code": 500, "message": "out of memory"}}\n\n'
    server = model(answering(Raw(body=body, content_type="text/event-stream")))
    with pytest.raises(EndpointError, match="out of memory"):
        messages()
    assert len(server.requests) == 2


@pytest.mark.parametrize("how", ["ignores it", "refuses it"])
def test_an_endpoint_that_does_not_stream_gives_the_answer_in_one_piece(model, how):
    def script(request):
        if how == "refuses it" and request.body["stream"]:
            return Raw(400, '{"error": {"message": "stream_options is not supported"}}')
        return {"answer": ANSWER}

    model(script, streams=False)
    assert [text for text, *_ in messages()] == [ANSWER]


def test_a_cached_reply_is_one_piece(model, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_CACHE", "on")
    get_settings.cache_clear()
    server = model(answering(Completion(REPLY)))
    assert len(messages()) > 1
    assert [text for text, *_ in messages()] == [ANSWER]
    assert len(server.requests) == 1


async def test_closing_the_stream_breaks_the_request_off(model):
    closed = threading.Event()

    def between(number):
        if number > 6:  # the first pieces have been seen
            assert closed.wait(30)

    server = model(answering(Completion('{"answer": "' + "x" * 10_000_000 + '"}', between=between)))
    stream = load("standard_rag").astream(GIVEN, stream_mode="messages")
    await anext(stream)
    await stream.aclose()
    closed.set()
    assert await asyncio.to_thread(server.requests[0].over.wait, 30)
    assert server.requests[0].left


async def test_langchain_events_have_the_tokens_too(model):
    model(answering(Completion(REPLY)))
    events = [event async for event in load("standard_rag").astream_events(GIVEN, version="v2")]
    said = [e["data"]["chunk"].content for e in events if e["event"] == "on_chat_model_stream"]
    assert "".join(said) == ANSWER


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("", ""),
        ('{"answer', ""),
        ('{"answer": "a\\', "a"),
        ('{"answer": "a\\ud83d\\ude', "a"),
        ('{"answer": "a\\ud83d\\ude00', "a😀"),
        ('```json\n{"answer": "a b', "a b"),
        ('<think>{"answer": "no"', ""),
        ('<think>{"answer": "no"}</think>{"answer": "yes', "yes"),
        ('{"thought": "\\"answer\\": \\"no', ""),
        ('{"nested": {"answer": "no"}, "answer": "yes"} and more', "yes"),
        ('{"answer": ["no"]}', ""),
        ("[1, 2", ""),
        ('{"answer": "a\\u0000', "a\ufffd"),
    ],
)
def test_the_answer_is_read_from_a_reply_that_may_end_anywhere(reply, answer):
    assert answer_so_far(reply) == answer
