"""Connections to a real HTTP server: what may pass and how long is waited, time-outs, proxies, cancelled calls."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from email.utils import formatdate

import pytest

import inference.http
import inference.retries
from tests.inference.conftest import ASK, KEY, NOTHING_LISTENS, ask, endpoint, failure, in_turn
from tests.scripted import Completion, Raw, Request

pytestmark = pytest.mark.usefixtures("quick")


async def test_proxies_of_the_environment_are_not_used_on_this_machine(serve, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "OPENAI_PROXY"):
        monkeypatch.setenv(name, NOTHING_LISTENS)
    assert (await ask(serve(lambda _: "x"))).text == "x"


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504])
async def test_transient_failures_are_retried(serve, status):
    server = serve(in_turn(Raw(status, "{}"), Raw(status, "{}"), "fine"))
    assert (await ask(server, llm_retries=2)).text == "fine"
    assert [request.id for request in server.requests] == ["t.prism.selector.1"] * 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_what_will_not_pass_is_not_tried_again(serve, status):
    server = serve(lambda _: Raw(status, '{"error": {"message": "no"}}'))
    error = await failure(server, llm_retries=5)
    assert len(server.requests) == 1
    assert error.message == f"{server.url} refused the request with status {status}: no"
    assert error.kind == "endpoint"
    assert error.hint


async def test_a_slow_server_is_given_up_after_the_time_out_and_tried_again(serve):
    server = serve(in_turn(Completion("late", delay=4), "in time"))
    assert (await ask(server, llm_retries=1, llm_timeout=1)).text == "in time"
    error = await failure(serve(lambda _: Completion("late", delay=2)), llm_retries=1, llm_timeout=0.2)
    assert "did not answer within 0.2 s" in error.message
    assert "HOPGRAPH_LLM_TIMEOUT" in error.hint


async def test_a_server_that_sends_a_byte_now_and_then_does_not_go_on_for_ever(serve):
    server = serve(lambda _: Raw(body=" " * 60, drip=0.2))
    started = time.monotonic()
    assert "did not answer within 0.4 s" in (await failure(server, llm_timeout=0.4)).message
    assert time.monotonic() - started < 6


async def test_the_pause_that_a_server_asks_for_is_kept(serve):
    server = serve(in_turn(Raw(429, "{}", headers={"Retry-After": "0.4"}), "fine"))
    await ask(server, llm_retries=1)
    first, second = server.requests
    assert 0.4 <= second.started - first.started < 20


async def test_the_pause_may_be_given_as_a_date(serve):
    arrived = threading.Event()

    def script(_: Request) -> Raw:
        arrived.set()
        return Raw(503, "{}", headers={"Retry-After": formatdate(time.time() + 4, usegmt=True)})

    server = serve(script)
    asking = asyncio.create_task(ask(server, llm_retries=1))
    assert await asyncio.to_thread(arrived.wait, 10)
    await asyncio.sleep(0.5)  # without the date the second request comes after 0.02 s at most
    assert len(server.requests) == 1
    assert not asking.done()
    asking.cancel()


@pytest.mark.parametrize("pause", ["soon", "-5", "nan-ish", ""])
async def test_a_pause_that_makes_no_sense_is_ignored(serve, pause):
    server = serve(in_turn(Raw(503, "{}", headers={"Retry-After": pause}), "fine"))
    assert (await ask(server, llm_retries=1)).text == "fine"


async def test_pauses_are_bounded_whatever_the_server_asks_for(serve, monkeypatch):
    monkeypatch.setattr(inference.retries, "MAX_BACKOFF", 0.1)
    for pause in ("86400", "inf", "nan"):
        server = serve(in_turn(Raw(503, "{}", headers={"Retry-After": pause}), "fine"))
        assert (await asyncio.wait_for(ask(server, llm_retries=1), 2)).text == "fine"


async def test_any_number_of_cancelled_calls_leaves_the_endpoint_usable(serve):
    one = endpoint(serve(lambda _: Completion("x", delay=0.003)), llm_concurrency=1)
    await one.complete(ASK, request_id="warm")
    for number in range(60):
        call = asyncio.create_task(one.complete(ASK, request_id="x"))
        await asyncio.sleep(number % 12 / 1000)
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call
    assert (await asyncio.wait_for(one.complete(ASK, request_id="x"), 60)).text == "x"


async def test_passwords_kept_for_other_programs_are_not_sent(serve, tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("default login me password hunter2\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    server = serve(in_turn("fine"))
    monkeypatch.setattr(inference.http, "_HERE", ())  # as if it were another machine's
    assert (await endpoint(server, llm_api_key=KEY).complete(ASK, request_id="i")).text == "fine"
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_a_server_elsewhere_is_asked_through_the_proxy_that_the_environment_names(serve, monkeypatch):
    proxy = serve(in_turn("fine"))
    monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/v1"))
    monkeypatch.setenv("no_proxy", "")
    reply = await endpoint("http://model.invalid/v1").complete(ASK, request_id="i")
    assert reply.text == "fine"
