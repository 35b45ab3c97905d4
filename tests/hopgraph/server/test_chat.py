"""Chats through OpenAI's own client: answers, streams, sources, usage, settings, threads, earlier turns."""

from __future__ import annotations

import asyncio
import json

import openai
import pytest

from hopgraph.methods import METHODS
from hopgraph.run import make_context
from hopgraph.run import resume as resume_thread
from hopgraph.server.service import final_nodes
from hopgraph.threads import read_thread
from tests.hopgraph.server.conftest import until
from tests.replies import proper_text
from tests.scripted import Completion, Raw
from tests.small import INDEX, QUESTION, build_small

PROPER = lambda request: proper_text(request, 3)  # noqa: E731


def answering(answer="Paris [1]"):
    return lambda request: {"answer": answer} if request.node == "generator" else PROPER(request)


async def test_models_are_the_methods_on_the_only_index_and_on_each_named_one(server):
    async with server.openai() as client:
        ids = {row.id async for row in client.models.list()}
        one = await client.models.retrieve(f"prism:{INDEX}")
    assert {*METHODS} <= ids
    assert {f"{method}:{INDEX}" for method in METHODS} - ids == {f"no_retrieval:{INDEX}"}
    assert (one.id, one.owned_by) == (f"prism:{INDEX}", "hopgraph")


async def test_of_several_indexes_one_must_be_named_unless_the_server_has_a_default(server, start, model):
    from stores.build import build_index
    from stores.passages import Passage

    build_index("other", [Passage(id="x", title="X", text="X is here.")])
    model(answering())
    with pytest.raises(openai.NotFoundError, match="name an index, such as standard_rag:"):
        await server.ask(model="standard_rag")
    assert (await server.ask(model=f"standard_rag:{INDEX}")).hopgraph["sources"]
    chosen = await start(index="other")
    assert (await chosen.ask(model="standard_rag")).hopgraph["sources"][0]["id"] == "x"


@pytest.mark.parametrize("method", METHODS)
async def test_every_method_answers_with_sources_usage_and_a_thread(server, model, method):
    calls = model(PROPER)
    async with server.openai() as client:
        raw = await client.chat.completions.with_raw_response.create(
            model=method, messages=[{"role": "user", "content": QUESTION}]
        )
    answer = raw.parse()
    about = answer.model_extra["hopgraph"]
    text = answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens == about["cost"]["completion_tokens"]
    assert answer.usage.total_tokens == about["cost"]["prompt_tokens"] + about["cost"]["completion_tokens"]
    assert about["cost"]["calls"] == len(calls.requests)
    assert raw.headers["x-hopgraph-thread"] == about["thread"]
    if about["status"] == "answered":
        assert text.startswith(about["answer"])
        for source in about["sources"][:10]:
            assert f"[{source['number']}] {source['title']} ({source['id']})" in text
    kept = await read_thread(about["thread"], server.service.saver)
    assert (kept.method, kept.question, kept.finished) == (method, QUESTION, True)
    assert (await resume_thread(about["thread"], server.service.saver))["answer"] == about["answer"]


@pytest.mark.parametrize("method", METHODS)
async def test_a_stream_has_the_steps_as_reasoning_and_the_same_answer(server, model, method):
    model(PROPER)
    reasoning, content, last, usage = "", "", None, None
    stream = await server.ask(QUESTION, method, stream=True, stream_options={"include_usage": True})
    async for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            reasoning += getattr(choice.delta, "reasoning_content", None) or ""
            content += choice.delta.content or ""
            last = (chunk.model_extra or {}).get("hopgraph", last)
    whole = await server.ask(QUESTION, method, extra_headers={"x-hopgraph-thread": last["thread"]})
    assert content == whole.choices[0].message.content
    assert usage == whole.usage
    assert last["sources"] == whole.hopgraph["sources"]
    if last["cost"]["searches"]:
        assert "Search: " in reasoning
        assert "Found: " in reasoning
    assert reasoning


def test_final_nodes_are_those_that_nothing_can_revise():
    assert final_nodes("standard_rag") == {"generator"}
    assert final_nodes("hanrag") == {"aggregator", "conclude", "generator", "synthesizer"}
    assert final_nodes("react") == frozenset()  # its agent may go on searching


async def test_tokens_are_sent_while_the_endpoint_writes_them(server, model):
    import threading

    seen = threading.Event()

    def between(number):
        if number == 4:
            assert seen.wait(10), "the first tokens did not arrive before the last were written"

    text = json.dumps({"answer": "Paris is the place [1]"})
    model(lambda request: Completion(text, between=between) if request.node == "generator" else PROPER(request))
    pieces = []
    stream = await server.ask(QUESTION, "standard_rag", stream=True)
    async for chunk in stream:
        for choice in chunk.choices:
            if choice.delta.content:
                pieces.append(choice.delta.content)
                seen.set()
    assert len(pieces) > 3
    assert "".join(pieces).startswith("Paris is the place [1]")


async def test_a_try_that_broke_off_does_not_leave_its_words_in_the_answer(server, model, monkeypatch):
    replies = iter([Completion(json.dumps({"answer": "Rome is wrong"}), cut=6), {"answer": "Paris"}])
    model(lambda request: next(replies))
    content = ""
    async for chunk in await server.ask(QUESTION, "standard_rag", stream=True):
        content += "".join(choice.delta.content or "" for choice in chunk.choices)
    assert "\n\nParis [1]" in content


async def test_the_text_shown_of_passages_has_no_markup(home, start, model):
    build_small({"x": ("<img src=x onerror=alert(1)> ![a](http://evil)", "X is here.")}, {})
    model(answering("yes"))
    server = await start()
    reasoning = content = ""
    async for chunk in await server.ask("X?", "standard_rag", stream=True):
        for choice in chunk.choices:
            reasoning += getattr(choice.delta, "reasoning_content", None) or ""
            content += choice.delta.content or ""
    for text in (reasoning, content):
        assert "onerror" in text
        assert "<img" not in text.replace("\\<", "")
        assert "![a]" not in text
        assert "](http" not in text


async def test_settings_are_read_from_the_body_and_from_metadata(server, model):
    calls = model(answering())
    body = {"settings": {"top_k": 1}}
    one = await server.ask(QUESTION, "standard_rag", extra_body=body, temperature=1.5)
    two = await server.ask(QUESTION, "standard_rag", metadata={"hopgraph.top_k": "2", "user": "someone"})
    assert [len(answer.hopgraph["sources"]) for answer in (one, two)] == [1, 2]
    assert {request.body["temperature"] for request in calls.requests} == {0.0}
    context = (await read_thread(one.hopgraph["thread"], server.service.saver)).context
    assert context == make_context("standard_rag", {"index": INDEX, "top_k": 1})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"top_q": 1}, "top_q: unknown setting"),
        ({"top_k": 0}, "top_k: Input should be greater"),
        ({"index": "other"}, "index: the model names it"),
        ({"prompt_generator": "{{nothing}}"}, "prompt_generator"),
    ],
)
async def test_a_wrong_setting_is_a_bad_request_that_names_it(server, model, settings, said):
    calls = model(answering())
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError, match=said) as raised:
            await server.ask(QUESTION, "standard_rag", stream=stream, extra_body={"settings": settings})
        assert raised.value.param == next(iter(settings))
    assert not calls.requests


@pytest.mark.parametrize(
    "body",
    [
        "{",
        "[]",
        "[" * 100_000,
        '{"model": "prism"}',
        '{"model": "prism", "messages": []}',
        '{"model": "prism", "messages": [{"role": "assistant", "content": "x"}]}',
        '{"model": "prism", "messages": [{"role": "user", "content": ""}]}',
        '{"model": "prism", "messages": [{"role": "user", "content": [{"type": "image_url"}]}]}',
        '{"model": "prism", "n": 2, "messages": [{"role": "user", "content": "x"}]}',
        '{"model": "prism", "thread": "../../x", "messages": [{"role": "user", "content": "x"}]}',
        '{"model": "prism", "history": "all", "messages": [{"role": "user", "content": "x"}]}',
        '{"model": "prism", "metadata": {"hopgraph.history": 1}, "messages": [{"role": "user", "content": "x"}]}',
    ],
)
async def test_a_malformed_request_is_a_bad_request(server, body):
    async with server.http() as client:
        answer = await client.post("/v1/chat/completions", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]


async def test_unknown_models_and_paths_are_not_found(server):
    for name in ("prisn", "prism:nothing", "prism:../../etc", "gpt-4o"):
        with pytest.raises(openai.NotFoundError) as raised:
            await server.ask(model=name)
        assert raised.value.code == "model_not_found"
    async with server.http() as client:
        assert (await client.get("/v1/models/prism:..%2F..%2Fetc")).status_code == 404
        assert (await client.get("/v1/nothing")).json()["error"]["code"] == "not_found"
        assert (await client.get("/v1/chat/completions")).status_code == 405


async def test_a_copy_of_an_index_under_a_name_that_is_none_is_no_model(server, home):
    copy = home / "indexes" / "small (copy)"
    copy.mkdir()
    (copy / "current").write_text("20260101T000000-0\n")
    async with server.http() as client:
        answer = await client.get("/v1/models")
    assert answer.status_code == 200
    assert "copy" not in answer.text


async def test_an_endpoint_that_is_away_is_said_so_and_the_thread_goes_on_later(server, model, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "0")
    down = True

    def script(request):
        if down and request.node == "generator":
            return Raw(503, '{"error": {"message": "loading"}}')
        return PROPER(request)

    calls = model(script)
    with pytest.raises(openai.InternalServerError, match="loading") as raised:
        await server.ask(QUESTION, "prism")
    thread = raised.value.response.headers["x-hopgraph-thread"]
    assert (raised.value.status_code, raised.value.code) == (502, "endpoint")
    assert raised.value.response.headers["x-should-retry"] == "false"
    stream = await server.ask(QUESTION, "prism", stream=True)
    with pytest.raises(openai.APIError, match="loading"):
        [chunk async for chunk in stream]
    before = len(calls.requests)
    down = False
    answer = await server.ask(QUESTION, "prism", extra_headers={"x-hopgraph-thread": thread})
    assert answer.hopgraph["thread"] == thread
    assert [request.node for request in calls.requests[before:]] == ["generator"]


async def test_a_deadline_is_a_gateway_time_out(server, model):
    model(lambda request: Completion(json.dumps({"answer": "late"}), delay=3))
    with pytest.raises(openai.InternalServerError) as raised:
        await server.ask(QUESTION, "standard_rag", extra_body={"settings": {"run_timeout": 0.5}})
    assert (raised.value.status_code, raised.value.code) == (504, "deadline")


async def test_a_repeated_request_on_a_thread_asks_nothing_again_and_another_one_is_refused(server, model):
    calls = model(answering())
    own = {"x-hopgraph-thread": "mine-1"}
    first = await server.ask(QUESTION, "standard_rag", extra_headers=own)
    second = await server.ask(QUESTION, "standard_rag", extra_headers=own)
    assert first.choices == second.choices
    assert len(calls.requests) == 1
    with pytest.raises(openai.ConflictError, match="belongs to another request"):
        await server.ask("Another?", "standard_rag", extra_headers=own)


CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Who directed Zorba's Night?"},
    {"role": "assistant", "content": "Ann Lee"},
    {"role": "user", "content": "Where was she born?"},
]


async def test_the_last_message_is_made_to_stand_alone_by_one_call(server, model):
    alone = "Where was Ann Lee born?"
    calls = model(lambda r: {"question": alone} if r.node == "standalone" else answering()(r))
    async with server.openai() as client:
        answer = await client.chat.completions.create(model="standard_rag", messages=CHAT)
    assert calls.nodes() == ["standalone", "generator"]
    prompt = calls.requests[0].prompt
    assert prompt.index("user: Who directed") < prompt.index("assistant: Ann Lee") < prompt.index("Where was she")
    assert answer.hopgraph["question"] == alone
    assert alone in calls.requests[1].prompt
    assert answer.usage.prompt_tokens == sum(len(request.prompt.split()) for request in calls.requests)


@pytest.mark.parametrize("how", ["server", "body", "metadata"])
async def test_history_off_takes_the_last_message_as_it_is(server, start, model, how):
    calls = model(answering())
    server = await start(history="off") if how == "server" else server
    options = {"body": {"extra_body": {"history": "off"}}, "metadata": {"metadata": {"hopgraph.history": "off"}}}
    async with server.openai() as client:
        answer = await client.chat.completions.create(model="standard_rag", messages=CHAT, **options.get(how, {}))
    assert calls.nodes() == ["generator"]
    assert answer.hopgraph["question"] == "Where was she born?"


async def test_a_rewrite_that_can_t_be_used_leaves_the_question_as_it_is(server, model):
    model(lambda r: "no json" if r.node == "standalone" else answering()(r))
    async with server.openai() as client:
        answer = await client.chat.completions.create(model="standard_rag", messages=CHAT)
    assert answer.hopgraph["question"] == "Where was she born?"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_goes_away_cancels_its_run(server, model, stream):
    calls = model(lambda request: Completion(json.dumps({"answer": "late"}), delay=60))
    asking = asyncio.create_task(read_all(server, stream))
    await until(lambda: calls.requests)
    assert server.service.admission.running == 1
    asking.cancel()
    await until(lambda: not server.service.admission.running)
    assert len(calls.requests) == 1
    assert 'status="cancelled"} 1.0' in server.service.metrics.text().decode()


async def read_all(server, stream):
    body = {"model": "standard_rag", "messages": [{"role": "user", "content": QUESTION}], "stream": stream}
    async with server.http() as client, client.stream("POST", "/v1/chat/completions", json=body) as answer:
        async for _ in answer.aiter_bytes():
            pass
