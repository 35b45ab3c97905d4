"""The endpoint against a real HTTP server: what it sends and says, when it tries again, and what a server can."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from langsmith._internal._serde import dumps_json

import inference.endpoints
import inference.retries
from inference.chat import Message, Reply, Schema
from inference.endpoint import Endpoint
from inference.endpoints import get_endpoint
from inference.errors import EndpointError, HopgraphError, InputError, PromptTooLong, StoreError
from inference.limiter import priority
from inference.reply_cache import ResponseCache
from inference.settings import Settings, get_settings
from stores.responses import open_responses
from tests.inference.conftest import ASK, KEY, NOTHING_LISTENS, ask, endpoint, failure, in_turn
from tests.scripted import MODEL, Completion, Raw, Request, ScriptedModel

SCHEMA = Schema("prism__selector", {"type": "object", "properties": {"answer": {"type": "string"}}})
SGLANG = {"id": MODEL, "object": "model", "owned_by": "sglang", "max_model_len": 6000}

pytestmark = pytest.mark.usefixtures("quick")


# What is sent


async def test_a_request_carries_prompt_schema_sampling_and_its_id(serve):
    server = serve(lambda _: {"answer": "x"})
    await endpoint(server).complete(
        ASK, request_id="t-1.prism.selector.abc", schema=SCHEMA, temperature=0.7, max_tokens=33, seed=5, top_logprobs=2
    )
    (request,) = server.requests
    assert request.id == "t-1.prism.selector.abc"
    assert request.node == "selector"
    assert request.body == {
        "model": MODEL,
        "messages": [{"role": m.role, "content": m.content} for m in ASK],
        "stream": False,
        "temperature": 0.7,
        "max_tokens": 33,
        "seed": 5,
        "logprobs": True,
        "top_logprobs": 2,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "prism__selector", "schema": SCHEMA.schema, "strict": True},
        },
    }


async def test_nothing_is_sent_that_was_not_asked_for(serve):
    server = serve(lambda _: "x")
    await ask(server)
    assert set(server.requests[0].body) == {"model", "messages", "stream", "temperature", "max_tokens"}


async def test_log_probabilities_can_be_asked_for_without_alternatives(serve):
    server = serve(lambda _: "x")
    await endpoint(server).complete(ASK, request_id="i", top_logprobs=0)
    assert server.requests[0].body["logprobs"] is True
    assert "top_logprobs" not in server.requests[0].body


async def test_further_fields_of_the_server_reach_it(serve):
    server = serve(lambda _: "x")
    extra = {"repetition_penalty": 1.1, "chat_template_kwargs": {"enable_thinking": False}}
    await ask(server, llm_extra=extra)
    assert {key: server.requests[0].body[key] for key in extra} == extra


async def ranked(one: Endpoint, number: int, cache: ResponseCache | None = None) -> Reply:
    """Ask as the question of that number does, once it is known what the server is."""
    await one.describe()

    async def within() -> Reply:
        priority.set(number)
        return await one.complete(ASK, request_id="i", cache=cache)

    return await asyncio.create_task(within())


async def test_vllm_is_told_whose_question_is_older(serve):
    server = serve(lambda _: "x")
    for number in (0, 3, 7):
        await ranked(endpoint(server), number)
    assert [request.body.get("priority") for request in server.requests] == [None, 3, 7]


async def test_other_servers_are_not(serve):
    others = [
        {"pages": llama()},
        {"context": None},
        {"pages": {"/v1/models": Raw(body=json.dumps({"data": [SGLANG]}))}},
    ]
    for options in others:
        server = serve(lambda _: "x", **options)
        await ranked(endpoint(server), 3)
        assert "priority" not in server.requests[0].body


@pytest.mark.parametrize("status", [400, 422])
async def test_a_vllm_that_goes_by_arrival_is_told_once_and_no_more(serve, status):
    said = json.dumps({"error": {"message": "Got priority 3 but Priority scheduling is not enabled."}})
    server = serve(lambda request: Raw(status, said) if "priority" in request.body else "x")
    one = endpoint(server)
    assert [(await ranked(one, number)).text for number in (3, 4, 5)] == ["x", "x", "x"]
    assert [request.body.get("priority") for request in server.requests] == [3, None, None, None]
    assert not one.ranks


async def test_a_priority_of_the_settings_stays_and_its_refusal_is_shown(serve):
    server = serve(lambda request: Raw(400, '{"error": {"message": "bad priority"}}') if server.requests[1:] else "x")
    one = endpoint(server, llm_extra={"priority": -1})
    await ranked(one, 3)
    with pytest.raises(EndpointError, match="bad priority"):
        await ranked(one, 3)
    assert [request.body["priority"] for request in server.requests] == [-1, -1]


@pytest.mark.parametrize("name", ["model", "messages", "temperature", "max_tokens", "stream", "n", "response_format"])
def test_a_further_field_that_the_caller_sets_is_refused(name):
    with pytest.raises(InputError, match=f"HOPGRAPH_LLM_EXTRA: {name} can't be set there"):
        endpoint(NOTHING_LISTENS, llm_extra={name: 1})


async def test_the_key_is_sent_and_without_one_none_is(serve):
    server = serve(lambda _: "x")
    await ask(server, llm_api_key=KEY)
    await ask(server)
    sent = [request.headers["authorization"] for request in server.requests]
    assert sent == [f"Bearer {KEY}", "Bearer none"]


async def test_the_only_model_of_a_server_need_not_be_named(serve):
    server = serve(lambda _: "x")
    unnamed = endpoint(server, model="")
    await unnamed.complete(ASK, request_id="i")
    assert server.requests[0].body["model"] == await unnamed.model_name() == MODEL


@pytest.mark.parametrize("ids", [[], ["a", "b"]])
async def test_of_several_models_or_none_one_must_be_named(serve, ids):
    rows = json.dumps({"data": [{"id": key} for key in ids]})
    server = serve(lambda _: "x", pages={"/v1/models": Raw(body=rows)})
    with pytest.raises(InputError, match=f"HOPGRAPH_LLM_MODEL is not set; {server.url} has {len(ids)} models"):
        await endpoint(server, model="").model_name()


@pytest.mark.parametrize(
    "url", ["localhost:8000/v1", "ftp://host/v1", "http://", "", "http://[::1/v1", "http://h:x/v1"]
)
def test_a_url_that_is_none_is_refused(url):
    with pytest.raises(InputError, match="HOPGRAPH_LLM_URL: not an http"):
        endpoint(url)


# Trying again


async def test_tries_are_bounded(serve):
    server = serve(lambda _: Raw(503, '{"error": {"message": "loading"}}'))
    error = await failure(server, llm_retries=3)
    assert len(server.requests) == 4
    assert error.message == f"{server.url} refused the request with status 503: loading"


async def test_pauses_grow(serve, monkeypatch):
    monkeypatch.setattr(inference.retries, "FIRST_BACKOFF", 0.1)
    server = serve(lambda _: Raw(500, "{}"))
    await failure(server, llm_retries=3)
    starts = [request.started for request in server.requests]
    pauses = [after - before for before, after in pairwise(starts)]
    assert all(pause >= least for pause, least in zip(pauses, [0.1, 0.2, 0.4], strict=True))
    assert sum(pauses) < 5


async def test_a_refused_connection_is_tried_again_and_then_says_what_to_do():
    relocated = []

    def locate() -> str:
        relocated.append(1)
        return NOTHING_LISTENS

    down = Endpoint(NOTHING_LISTENS, MODEL, Settings(llm_retries=2, llm_timeout=1), locate)
    with pytest.raises(EndpointError) as caught:
        await down.complete(ASK, request_id="i")
    assert len(relocated) == 2
    assert f"can't reach the model's server at {NOTHING_LISTENS}: ConnectionRefusedError" in caught.value.message
    assert "is it running?" in caught.value.hint
    assert caught.value.exit_code == 3


async def test_a_server_that_was_started_again_elsewhere_is_found(serve):
    server = serve(lambda _: "here")
    moved = Endpoint(NOTHING_LISTENS, MODEL, Settings(llm_retries=1), lambda: server.url)
    assert (await moved.complete(ASK, request_id="i")).text == "here"
    assert moved.url == server.url
    assert (await moved.context()) == 32768


async def test_an_error_of_starting_the_server_again_is_shown_as_it_is():
    def locate() -> str:
        raise StoreError("the weights are damaged", hint="fetch them again")

    broken = Endpoint(NOTHING_LISTENS, MODEL, Settings(llm_retries=1), locate)
    with pytest.raises(StoreError, match="the weights are damaged"):
        await broken.complete(ASK, request_id="i")


async def test_a_cancelled_call_is_cancelled_and_frees_its_slot(serve):
    server = serve(lambda request: Completion("x", delay=5 if len(server.requests) == 1 else 0))
    one = endpoint(server, llm_concurrency=1)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(one.complete(ASK, request_id="slow"), 0.2)
    assert (await one.complete(ASK, request_id="next")).text == "x"


# What a server says when it refuses


async def test_messages_of_a_server_are_shortened_and_lose_their_markup(serve):
    page = "<html><h1>502</h1>" + "<p>bad gateway</p>" * 1000
    error = await failure(serve(lambda _: Raw(400, json.dumps({"error": {"message": page}}))))
    assert "status 400: 502 bad gateway bad gateway" in error.message
    assert len(error.message) < 450


async def test_a_hostile_message_does_not_hold_up_the_program(serve):
    error = await asyncio.wait_for(failure(serve(lambda _: Raw(400, json.dumps({"error": "<" * 300_000})))), 5)
    assert "status 400" in error.message


@pytest.mark.parametrize(
    ("status", "hint"),
    [(401, "HOPGRAPH_LLM_API_KEY"), (403, "HOPGRAPH_LLM_API_KEY"), (404, "HOPGRAPH_LLM_MODEL"), (429, "CONCURRENCY")],
)
async def test_hints_say_what_to_set(serve, status, hint):
    assert hint in (await failure(serve(lambda _: Raw(status, "{}")))).hint


@pytest.mark.parametrize(
    "said",
    [
        "This model's maximum context length is 8192 tokens. However, your request has 9000 input tokens.",
        "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
        "request (6030 tokens) exceeds the available context size (2048 tokens), try increasing it",
    ],
)
async def test_a_prompt_that_the_server_finds_too_long_is_known_as_such(serve, said):
    with pytest.raises(PromptTooLong, match="does not fit the model's context"):
        await ask(serve(lambda _: Raw(400, json.dumps({"error": {"message": said}}))))


async def test_other_bad_requests_are_not_taken_for_long_prompts(serve):
    error = await failure(serve(lambda _: Raw(400, '{"error": {"message": "schema: length must be positive"}}')))
    assert not isinstance(error, PromptTooLong)


# Secrets


async def test_the_key_is_in_no_message_repr_or_cache(serve, home):
    echo = Raw(401, json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}."}}))
    server = serve(in_turn(echo, "fine"))
    error = await failure(server, llm_api_key=KEY)
    assert "Incorrect API key provided: ***." in error.message
    keyed = endpoint(server, llm_api_key=KEY)
    cache = open_responses(home / "responses.sqlite")
    reply = await keyed.complete(ASK, request_id="i", cache=cache)
    for text in (str(error), repr(error), error.hint, repr(keyed), str(keyed.settings), repr(reply), repr(keyed._http)):
        assert KEY not in text
    assert files(home)
    assert all(KEY.encode() not in path.read_bytes() for path in files(home))


async def test_a_password_in_the_url_is_in_no_message(serve):
    server = serve(lambda _: Raw(404, "{}"))
    url = server.url.replace("//", "//me:hunter2@")
    for place in (url, NOTHING_LISTENS.replace("//", "//me:hunter2@")):
        error = await failure(place)
        assert "hunter2" not in error.message
        assert "//***@127.0.0.1" in error.message
    with pytest.raises(InputError) as caught:
        endpoint("htp://me:hunter2@host/v1")
    assert "hunter2" not in str(caught.value)


async def test_no_password_reaches_a_tracer_that_writes_out_what_a_call_was_given(serve):
    """LangChain's callbacks get a task's input as it is, and LangSmith's serializer writes out dataclasses."""
    secret = endpoint(
        serve(in_turn("fine")).url.replace("//", "//me:hunter2@"), checkpoints="postgresql://me:hunter3@h/d"
    )

    @dataclass
    class Given:
        endpoint: object

    for text in (dumps_json(Given(secret)).decode(), repr(Given(secret))):
        assert "hunter" not in text
        assert "***@127.0.0.1" in text


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


# Concurrency


async def test_no_more_calls_are_in_flight_than_allowed_and_as_many_as_that(serve):
    server = serve(lambda _: Completion("x", delay=0.2))
    three = endpoint(server, llm_concurrency=3)
    await asyncio.gather(*(three.complete(ASK, request_id=f"r{n}") for n in range(12)))
    assert len(server.requests) == 12
    assert server.most_in_flight == 3


async def test_all_models_of_a_server_share_its_limit(model, monkeypatch):
    server = model(lambda _: Completion("x", delay=0.2))
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "2")
    endpoints = [get_endpoint(name) for name in ("a", "b", "c")]
    assert get_endpoint("a") is endpoints[0]
    monkeypatch.setenv("HOPGRAPH_LLM_URL", server.url + "/")
    get_settings.cache_clear()
    assert get_endpoint("a") is endpoints[0]
    await asyncio.gather(*(one.complete(ASK, request_id="i") for one in endpoints * 3))
    assert server.most_in_flight == 2


async def test_servers_have_limits_of_their_own(model, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "2")
    all_four = threading.Barrier(4)

    def script(_: Request) -> str:
        all_four.wait(timeout=10)  # no call ends before all four are under way
        return "x"

    monkeypatch.setenv("HOPGRAPH_GENERATOR_URL", model(script).url)
    model(script)
    endpoints = [get_endpoint(MODEL), get_endpoint(MODEL, "generator")]
    await asyncio.gather(*(one.complete(ASK, request_id="i") for one in endpoints * 2))


def test_every_event_loop_has_an_endpoint_of_its_own(model):
    server = model(lambda _: "x")

    async def once() -> Endpoint:
        one = get_endpoint()
        await one.complete(ASK, request_id="i")
        return one

    first, second = asyncio.run(once()), asyncio.run(once())
    assert first is not second
    assert len(server.requests) == 2
    assert sum(loop.is_closed() for loop in inference.endpoints._endpoints) == 1  # earlier ones are forgotten


# Response cache


async def cached_ask(server: ScriptedModel, home: Path, **changes: Any) -> Reply:
    settings = changes.pop("settings", {})
    arguments = {"messages": ASK, "request_id": "i", "cache": open_responses(home / "responses.sqlite"), **changes}
    return await endpoint(server, model=arguments.pop("model", MODEL), **settings).complete(**arguments)


async def test_a_cached_reply_is_the_same_and_marked_and_costs_no_request(serve, home):
    tokens = [('{"answer": "', -0.5), (b"\xf0\x9f", -1 / 3), (b"\x99\x82", float("-inf")), ('"}', -0.125)]
    server = serve(lambda _: Completion('{"answer": "🙂"}', tokens=tokens))
    first = await cached_ask(server, home, top_logprobs=0)
    second = await cached_ask(server, home, top_logprobs=0, request_id="another")
    assert len(server.requests) == 1
    assert (first.cached, second.cached) == (False, True)
    assert second.tokens == first.tokens
    for name in ("text", "model", "prompt_tokens", "completion_tokens", "finish_reason"):
        assert getattr(second, name) == getattr(first, name)
    assert second.seconds == 0


@pytest.mark.parametrize(
    "change",
    [
        {"messages": [*ASK, Message("user", "more")]},
        {"messages": [Message("user", ASK[0].content), *ASK[1:]]},
        {"model": "another"},
        {"schema": SCHEMA},
        {"temperature": 0.1},
        {"max_tokens": 7},
        {"seed": 1},
        {"top_logprobs": 0},
        {"settings": {"llm_extra": {"repetition_penalty": 1.2}}},
    ],
    ids=str,
)
async def test_the_cache_tells_apart_whatever_changes_a_reply(serve, home, change):
    server = serve(lambda _: "x")
    await cached_ask(server, home)
    assert not (await cached_ask(server, home, **change)).cached
    assert (await cached_ask(server, home, **change)).cached
    assert len(server.requests) == 2


async def test_the_cache_has_a_reply_for_every_question_whatever_its_turn(serve, home):
    server, store = serve(lambda _: "x"), open_responses(home / "responses.sqlite")
    for number in (1, 2):
        await ranked(endpoint(server), number, store)
    assert [request.body["priority"] for request in server.requests] == [1]


async def test_the_cache_serves_the_same_model_at_another_address(serve, home):
    await cached_ask(serve(lambda _: "x"), home)
    assert (await cached_ask(serve(lambda _: "y"), home)).text == "x"


async def test_without_a_cache_every_call_is_made(serve):
    server = serve(lambda _: "x")
    one = endpoint(server)
    replies = [await one.complete(ASK, request_id="i") for _ in range(2)]
    assert len(server.requests) == 2
    assert not any(reply.cached for reply in replies)


async def test_the_cache_is_off_by_default():
    assert Settings().cache == "off"


@pytest.mark.parametrize("reason", ["length", "content_filter", "abort"])
async def test_cut_replies_are_not_cached(serve, home, reason):
    server = serve(in_turn(Completion('{"a', finish_reason=reason), '{"a": 1}'))
    assert (await cached_ask(server, home)).text == '{"a'
    assert (await cached_ask(server, home)).text == '{"a": 1}'
    assert (await cached_ask(server, home)).cached


async def test_failures_are_not_cached(serve, home):
    server = serve(in_turn(Raw(400, "{}"), "fine"))
    with pytest.raises(EndpointError):
        await cached_ask(server, home)
    assert (await cached_ask(server, home)).text == "fine"


@pytest.mark.parametrize(
    "stored", ["", "{", "[]", "null", '{"text": "x"}', '{"tokens": [["zz", 0, {}]]}', '{"tokens": 5}']
)
async def test_a_cached_reply_that_cannot_be_read_is_asked_for_again(serve, stored):
    class Damaged:
        async def get(self, key: str) -> str | None:
            return stored

        async def put(self, key: str, value: str) -> None:
            self.kept = value

    server = serve(lambda _: "fresh")
    cache = Damaged()
    reply = await endpoint(server).complete(ASK, request_id="i", cache=cache)
    assert (reply.text, reply.cached) == ("fresh", False)
    assert json.loads(cache.kept)["text"] == "fresh"


async def test_a_damaged_cache_file_is_a_clear_error(serve, tmp_path):
    path = tmp_path / "responses.sqlite"
    path.write_text("this is no database, and long enough to be read as one" * 100)
    with pytest.raises(StoreError, match=r"response cache .*responses\.sqlite: file is not a database") as caught:
        await cached_ask(serve(lambda _: "x"), tmp_path)
    assert "delete the file" in caught.value.hint


# Describing the server and fitting prompts


def llama(context: int = 4096) -> dict[str, Raw]:
    """What llama.cpp's server says of itself."""
    rows = [{"id": MODEL, "object": "model", "owned_by": "llamacpp", "meta": {"n_ctx": 99, "n_ctx_train": 99_999}}]
    return {
        "/v1/models": Raw(body=json.dumps({"object": "list", "data": rows})),
        "/props": Raw(body=json.dumps({"total_slots": 4, "default_generation_settings": {"n_ctx": context}})),
    }


async def test_vllm_is_known_by_the_length_it_reports(serve):
    info = await endpoint(serve(lambda _: "x", context=5000)).describe()
    assert (info.kind, info.models, info.context) == ("vllm", (MODEL,), 5000)


async def test_another_server_may_report_a_length_too(serve):
    server = serve(lambda _: "x", pages={"/v1/models": Raw(body=json.dumps({"data": [SGLANG]}))})
    info = await endpoint(server).describe()
    assert (info.kind, info.context) == ("other", 6000)


async def test_vllm_says_its_version_and_others_none(serve):
    pages = {"/version": Raw(body='{"version": "0.32.0"}')}
    assert await endpoint(serve(lambda _: "x", pages=pages)).version() == "0.32.0"
    for said in (Raw(404, "{}"), Raw(body="[]"), Raw(body="hello"), Raw(body='{"version": 3}')):
        assert await endpoint(serve(lambda _: "x", pages={"/version": said})).version() == ""


async def test_an_adapter_of_vllm_has_the_length_of_its_base(serve):
    rows = [{"id": "base", "max_model_len": 6000}, {"id": "lora", "max_model_len": None, "parent": "base"}]
    server = serve(lambda _: "x", pages={"/v1/models": Raw(body=json.dumps({"data": rows}))})
    assert await endpoint(server, model="lora").context() == 6000


async def test_of_several_models_the_length_of_the_one_asked_counts(serve):
    rows = [{"id": "a", "max_model_len": 6000}, {"id": "b", "max_model_len": 7000}]
    server = serve(lambda _: "x", pages={"/v1/models": Raw(body=json.dumps({"data": rows}))})
    assert await endpoint(server, model="b").context() == 7000


async def test_llama_cpp_has_the_context_of_one_slot(serve):
    info = await endpoint(serve(lambda _: "x", pages=llama(2048))).describe()
    assert (info.kind, info.context) == ("llama.cpp", 2048)


async def test_a_server_that_does_not_say_has_no_known_context(serve):
    info = await endpoint(serve(lambda _: "x", context=None)).describe()
    assert (info.kind, info.context) == ("other", None)


async def test_the_set_context_goes_before_the_reported_one(serve):
    server = serve(lambda _: "x", context=5000)
    assert await endpoint(server, llm_context=1000).context() == 1000
    assert server.visits == []


async def test_a_server_is_asked_once_what_it_is(serve):
    server = serve(lambda _: "x")
    one = endpoint(server)
    await asyncio.gather(*(one.describe() for _ in range(5)))
    assert [path for path, _ in server.visits] == ["/v1/models"]


async def test_a_server_that_is_still_loading_is_waited_for(serve):
    rows = Raw(body=json.dumps({"data": [{"id": MODEL, "max_model_len": 777}]}))
    replies = iter([Raw(503, '{"error": {"message": "Loading model"}}'), Raw(429, "{}"), rows])
    server = serve(lambda _: "x", pages={"/v1/models": lambda: next(replies)})
    assert await endpoint(server, llm_retries=2).context() == 777


async def test_where_nothing_listens_describing_fails_at_once():
    started = time.monotonic()
    with pytest.raises(EndpointError, match=r"can't reach the model's server at http://127\.0\.0\.1:9/v1"):
        await endpoint(NOTHING_LISTENS, llm_retries=50).describe()
    assert time.monotonic() - started < 6


@pytest.mark.parametrize(
    "reply", ["<html>Welcome</html>", "[]", "{}", '{"data": 5}', '{"data": [{"name": "x"}]}', "null"]
)
async def test_another_program_at_the_address_is_recognised(serve, reply):
    server = serve(lambda _: "x", pages={"/v1/models": Raw(body=reply)})
    with pytest.raises(EndpointError, match=f"{server.url}/models did not answer like an OpenAI-compatible server"):
        await endpoint(server).describe()


@pytest.mark.parametrize(("status", "hint"), [(401, "HOPGRAPH_LLM_API_KEY"), (500, "see the server's log")])
async def test_a_refused_description_says_so(serve, status, hint):
    server = serve(lambda _: "x", pages={"/v1/models": Raw(status, "{}")})
    with pytest.raises(EndpointError, match=f"refused the request with status {status}") as caught:
        await endpoint(server).describe()
    assert hint in caught.value.hint


async def test_a_server_without_a_list_of_models_can_be_used_if_the_model_is_named(serve):
    server = serve(lambda _: "x", pages={"/v1/models": Raw(404, "{}")})
    assert (await endpoint(server).describe()).kind == "other"
    with pytest.raises(EndpointError, match="status 404") as caught:
        await endpoint(server, model="").model_name()
    assert "/v1" in caught.value.hint


def prompt(words: int, word: str = "word") -> list[Message]:
    return [Message("user", f"{word} " * words)]


async def test_a_long_prompt_is_counted_by_the_servers_tokenizer(serve):
    server = serve(lambda _: "x", context=300)  # its tokenizer counts words
    one = endpoint(server, model="", llm_extra={"chat_template_kwargs": {"enable_thinking": False}})
    assert await one.fits(prompt(200), max_tokens=100)
    assert not await one.fits(prompt(201), max_tokens=100)
    path, body = server.visits[-1]
    assert path == "/tokenize"
    assert body["model"] == MODEL
    assert body["messages"] == [{"role": "user", "content": "word " * 201}]
    assert body["chat_template_kwargs"] == {"enable_thinking": False}


async def test_a_short_prompt_fits_without_asking(serve):
    server = serve(lambda _: "x", context=1000)
    assert await endpoint(server).fits([Message("user", "7" * 700)], max_tokens=200)
    assert [path for path, _ in server.visits] == ["/v1/models"]


async def test_digits_may_be_a_token_each(serve):
    """Half a token a byte would let this through without asking."""
    server = serve(lambda _: "x", context=1000, pages={"/tokenize": Raw(body='{"count": 920}')})
    assert not await endpoint(server).fits([Message("user", "7" * 900)], max_tokens=100)


async def test_llama_cpp_counts_the_prompt_with_its_chat_template(serve):
    pages = llama(500) | {"/v1/chat/completions/input_tokens": Raw(body='{"input_tokens": 400}')}
    server = serve(lambda _: "x", pages=pages)
    one = endpoint(server)
    assert await one.fits(prompt(300), max_tokens=100)
    assert not await one.fits(prompt(300), max_tokens=101)


@pytest.mark.parametrize("reply", [Raw(404, "{}"), Raw(body="<html>"), Raw(body="[]"), Raw(body='{"count": "many"}')])
async def test_without_a_tokenizer_a_token_is_three_bytes(serve, reply):
    server = serve(lambda _: "x", context=1000, pages={"/tokenize": reply})
    one = endpoint(server)
    assert await one.fits([Message("user", "a" * 2600)], max_tokens=100)
    assert not await one.fits([Message("user", "a" * 2700)], max_tokens=100)


async def test_an_enormous_prompt_is_not_sent_to_the_tokenizer(serve):
    server = serve(lambda _: "x", context=300)
    assert not await endpoint(server).fits(prompt(100_000), max_tokens=16)
    assert "/tokenize" not in [path for path, _ in server.visits]


async def test_without_a_known_context_everything_fits(serve):
    assert await endpoint(serve(lambda _: "x", context=None)).fits(prompt(100_000), max_tokens=100)


async def test_every_error_can_be_shown_to_a_person(serve):
    for server in (serve(lambda _: Raw(500, "")), NOTHING_LISTENS):
        error = await failure(server)
        assert isinstance(error, HopgraphError)
        assert error.message.isprintable()
        assert error.hint.isprintable()
