"""Several servers in HOPGRAPH_LLM_URL, over real HTTP: which one gets a call, and what happens when one dies."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

import inference.endpoint_list
from inference.chat import Message
from inference.endpoint import Endpoint
from inference.endpoint_list import EndpointList
from inference.endpoints import calls_at_once, get_endpoint, limiters
from inference.errors import EndpointError, InputError
from inference.settings import Settings, get_settings
from tests.inference.conftest import ASK, NOTHING_LISTENS
from tests.inference.lone_server import LoneServer
from tests.scripted import MODEL, Completion, Raw, ScriptedModel

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture(autouse=True)
def _checked_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference.endpoint_list, "RECHECK", 0.05)


def listed(*servers: ScriptedModel | LoneServer | str, model: str = MODEL, **settings: Any) -> EndpointList:
    chosen = Settings(**{"llm_retries": 0, "llm_timeout": 5.0, "llm_concurrency": 4, **settings})
    urls = [server if isinstance(server, str) else server.url for server in servers]
    return EndpointList([Endpoint(url, model, chosen) for url in urls], model, chosen, "HOPGRAPH_LLM")


async def texts(endpoint: Endpoint, threads: Sequence[str]) -> list[str]:
    """The replies to one call of each thread, all at the same time."""
    calls = (endpoint.complete(ASK, request_id=f"{thread}.prism.selector.1") for thread in threads)
    return [reply.text for reply in await asyncio.gather(*calls)]


def threads(count: int) -> list[str]:
    return [f"t-{number}" for number in range(count)]


async def test_threads_are_spread_and_stay_with_their_server(serve):
    endpoint = listed(*(serve(lambda _, name=name: name) for name in "abc"))
    first = await texts(endpoint, threads(12))
    assert Counter(first) == {"a": 4, "b": 4, "c": 4}
    for _ in range(3):
        assert await texts(endpoint, list(reversed(threads(12)))) == list(reversed(first))


async def test_a_slow_server_gets_fewer_threads(serve):
    slow, quick = serve(lambda _: Completion("slow", delay=0.5)), serve(lambda _: Completion("quick", delay=0.01))
    endpoint = listed(slow, quick, llm_concurrency=2)
    waiting = asyncio.Semaphore(4)

    async def one(thread: str) -> str:
        async with waiting:
            return (await texts(endpoint, [thread]))[0]

    found = Counter(await asyncio.gather(*map(one, threads(40))))
    assert found["quick"] > 3 * found["slow"] > 0


async def test_each_server_has_a_limit_of_its_own(serve):
    servers = [serve(lambda _: Completion("x", delay=0.1)) for _ in range(2)]
    await texts(listed(*servers, llm_concurrency=3), threads(18))
    assert [server.most_in_flight for server in servers] == [3, 3]
    assert [len(server.requests) for server in servers] == [9, 9]


async def test_calls_of_a_killed_server_go_to_the_others_at_once_and_it_comes_back(caplog):
    with LoneServer("a", 0.1) as dying, LoneServer("b", 0.1) as other:
        endpoint = listed(dying, other, llm_patience=0)
        assert set(await texts(endpoint, threads(8))) == {"a", "b"}
        calls = asyncio.create_task(texts(endpoint, threads(40)))
        await asyncio.sleep(0.15)
        dying.kill()
        found = await calls
        assert len(found) == 40
        assert "a" in found  # answered before
        assert set(await texts(endpoint, threads(8))) == {"b"}
        assert f"{dying.url}: " in caplog.text
        assert "left out, 1 of 2 servers remain" in caplog.text
        dying.start()
        deadline = time.monotonic() + 20
        while "is back" not in caplog.text and time.monotonic() < deadline:
            await texts(endpoint, ["t-1"])
        assert f"{dying.url} is back" in caplog.text
        assert set(await texts(endpoint, [f"new-{n}" for n in range(8)])) == {"a", "b"}


async def test_a_call_waits_for_a_server_when_all_are_dead(caplog):
    with LoneServer("a") as one, LoneServer("b") as two:
        endpoint = listed(one, two, llm_patience=30, llm_retries=1000)
        assert len(await texts(endpoint, threads(2))) == 2
        one.kill()
        two.kill()
        calls = asyncio.create_task(texts(endpoint, threads(10)))
        await asyncio.sleep(0.5)
        assert not calls.done()
        two.start()
        assert set(await calls) == {"b"}


async def test_with_all_dead_the_error_names_them_all():
    endpoint = listed(NOTHING_LISTENS, "http://user:secret@127.0.0.1:10/v1")
    with pytest.raises(EndpointError, match="can't reach") as caught:
        await texts(endpoint, ["t"])
    assert "http://127.0.0.1:9/v1, http://***@127.0.0.1:10/v1" in caught.value.message
    assert "LeftOut" not in caught.value.message
    assert "secret" not in str(caught.value)
    with pytest.raises(EndpointError):
        await endpoint.check()


async def test_a_server_that_is_down_at_the_start_is_left_out(serve, caplog):
    server = serve(lambda _: "x")
    endpoint = listed(NOTHING_LISTENS, server)
    assert await endpoint.check() == MODEL
    assert "left out, 1 of 2 servers remain" in caplog.text
    assert await texts(endpoint, threads(4)) == ["x"] * 4
    assert len(endpoint.limiters) == 1


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_a_call_that_one_server_refuses_goes_to_the_next(serve, status):
    refusing, server = serve(lambda _: Raw(status, "{}")), serve(lambda _: "x")
    failures: list[Exception] = []

    async def on_failure(error: Exception) -> None:
        failures.append(error)

    endpoint = listed(refusing, server)
    reply = await endpoint.complete(ASK, request_id="t.1", on_failure=on_failure)
    assert (reply.text, len(refusing.requests), len(failures)) == ("x", 1, 1)
    assert endpoint.servers[0].left_out == (status in (502, 504))


async def test_a_request_that_is_wrong_is_not_sent_to_every_server(serve):
    servers = [serve(lambda _: Raw(400, '{"error": "no"}')) for _ in range(2)]
    with pytest.raises(EndpointError, match="400"):
        await texts(listed(*servers), ["t"])
    assert sum(len(server.requests) for server in servers) == 1


async def test_a_call_that_times_out_goes_to_the_next_server(serve):
    hanging, server = serve(lambda _: Completion("late", delay=3)), serve(lambda _: "x")
    assert await texts(listed(hanging, server, llm_timeout=0.5), ["t"]) == ["x"]
    assert len(hanging.requests) == 1


async def test_prompts_must_fit_the_shortest_context(serve):
    endpoint = listed(serve(lambda _: "x", context=9000), serve(lambda _: "x", context=4000))
    assert await endpoint.context() == 4000


async def test_a_prompt_is_counted_by_another_server_when_one_has_died(serve):
    with LoneServer("a") as dying:
        server = serve(lambda _: "x", context=2000)
        endpoint = listed(dying, server)
        await endpoint.check()
        dying.kill()
        # 1,000 words of six letters: 1,000 tokens as counted, 2,000 as estimated without a tokenizer.
        assert await endpoint.fits([Message("user", "worded " * 1000)], 500)


async def test_servers_of_different_models_are_refused(serve):
    other = serve(lambda _: "x", pages={"/v1/models": Raw(body='{"data": [{"id": "other", "max_model_len": 9000}]}')})
    for model in ("", MODEL):
        with pytest.raises(InputError, match=r"no model in common: .*scripted; .*other"):
            await listed(serve(lambda _: "x"), other, model=model).check()


async def test_a_server_that_comes_back_with_another_model_stays_left_out(serve):
    with LoneServer("a") as dying:
        server = serve(lambda _: "x")
        endpoint = listed(dying, server)
        await endpoint.check()
        dying.kill()
        while not endpoint.servers[0].left_out:
            await texts(endpoint, threads(2))
        row = {"/v1/models": Raw(body='{"data": [{"id": "other", "max_model_len": 9000, "owned_by": "vllm"}]}')}
        with ScriptedModel(lambda _: "wrong", port=dying.port, pages=row).running() as wrong:
            for _ in range(20):
                assert set(await texts(endpoint, threads(4))) == {"x"}
                await asyncio.sleep(0.02)
            assert any(path == "/v1/models" for path, _ in wrong.visits)


async def test_a_wrong_key_of_one_server_is_an_error(serve):
    closed = serve(lambda _: "x", pages={"/v1/models": Raw(401, '{"error": "key"}')})
    with pytest.raises(EndpointError, match="401"):
        await listed(serve(lambda _: "x"), closed).check()


async def test_the_variable_takes_a_list(serve, monkeypatch):
    servers = [serve(lambda _: "x") for _ in range(2)]
    urls = [server.url for server in servers]
    monkeypatch.setenv("HOPGRAPH_LLM_URL", f" {urls[0]}/ , {urls[1]},{urls[0]},")
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "5")
    get_settings.cache_clear()
    endpoint = get_endpoint()
    assert isinstance(endpoint, EndpointList)
    assert get_endpoint() is endpoint
    assert [server.url for server in endpoint.servers] == urls
    assert await endpoint.check() == MODEL
    assert (calls_at_once(), [limiter.limit for limiter in limiters()]) == (10, [5, 5])
    endpoint.servers[0].left_out = True
    assert (calls_at_once(), [limiter.limit for limiter in limiters()]) == (5, [5])


async def test_an_item_that_is_no_url_is_named(monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_URL", "http://127.0.0.1:8000/v1,gpu-2:8000/v1")
    get_settings.cache_clear()
    with pytest.raises(InputError, match="HOPGRAPH_LLM_URL: not an http"):
        get_endpoint()
