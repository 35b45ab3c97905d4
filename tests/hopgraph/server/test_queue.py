"""The queue, the end of a server, its health and metrics."""

from __future__ import annotations

import asyncio
import json
import threading

import openai
import pytest

from hopgraph.server.admission import Admission
from hopgraph.server.errors import ApiError
from inference import drain
from tests.hopgraph.server.conftest import until
from tests.replies import proper_text
from tests.scripted import Completion
from tests.small import QUESTION, build_small


def held(released):
    """Replies once an event is set."""

    def answer(request):
        assert released.wait(60)
        return {"answer": "Paris"}

    return answer


def slow(seconds):
    return lambda request: Completion(json.dumps({"answer": "Paris"}), delay=seconds)


async def test_requests_beyond_the_queue_are_refused_with_a_time_to_wait(home, start, model):
    build_small()
    released = threading.Event()
    model(held(released))
    server = await start(runs=1, queue=1)
    first = asyncio.create_task(server.ask(QUESTION, "standard_rag"))
    await until(lambda: server.service.admission.running == 1)
    second = asyncio.create_task(server.ask(QUESTION, "standard_rag"))
    await until(lambda: server.service.admission.waiting == 1)
    with pytest.raises(openai.RateLimitError) as raised:
        await server.ask(QUESTION, "standard_rag")
    assert int(raised.value.response.headers["retry-after"]) >= 1
    assert raised.value.code == "queue_full"
    released.set()
    assert [(await task).hopgraph["answer"] for task in (first, second)] == ["Paris", "Paris"]
    async with server.http() as client:
        text = (await client.get("/metrics")).text
    assert 'hopgraph_runs_total{method="standard_rag",status="answered"} 2.0' in text
    assert 'hopgraph_model_calls_total{method="standard_rag"} 2.0' in text
    assert 'hopgraph_requests_refused_total{code="queue_full"} 1.0' in text
    assert "hopgraph_runs_active 0.0" in text
    assert 'hopgraph_run_seconds_count{method="standard_rag"} 2.0' in text


async def test_a_request_that_waited_continues_the_thread_that_its_double_has_ended(home, start, model):
    build_small()
    released = threading.Event()
    calls = model(held(released))
    server = await start(runs=1)
    admission = server.service.admission
    tasks = [asyncio.create_task(server.ask(QUESTION, "standard_rag"))]
    await until(lambda: admission.running == 1)
    for waiting, question in enumerate([QUESTION, QUESTION, "Who?"], start=1):
        own = {"x-hopgraph-thread": "t-1"}
        tasks.append(asyncio.create_task(server.ask(question, "standard_rag", extra_headers=own)))
        await until(lambda number=waiting: admission.waiting == number)
    released.set()
    _, one, double, other = await asyncio.gather(*tasks, return_exceptions=True)
    assert one.hopgraph == double.hopgraph
    assert isinstance(other, openai.ConflictError)
    assert len(calls.requests) == 2


async def test_places_are_given_in_order_and_lost_by_no_cancelled_one():
    admission = Admission(1, 10)
    order = []

    async def one(number):
        async with admission.place():
            order.append(number)
            await asyncio.sleep(0.01)

    tasks = [asyncio.create_task(one(number)) for number in range(5)]
    await asyncio.sleep(0)
    tasks[2].cancel()
    tasks[0].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == [0, 1, 3, 4]
    assert (admission.running, admission.waiting) == (0, 0)
    # A place that was given to one that is cancelled before it runs.
    async with admission.place():
        waiting = asyncio.create_task(one(5))
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert admission.running == 0


async def test_a_closed_queue_refuses_those_that_wait():
    admission = Admission(1, 10)
    async with admission.place():
        waiting = asyncio.create_task(admission.place().__aenter__())
        await asyncio.sleep(0)
        admission.close()
        with pytest.raises(ApiError, match="being stopped"):
            await waiting
    with pytest.raises(ApiError):
        admission.check()


async def test_a_server_that_drains_ends_its_calls_and_another_continues_the_run(home, start, model):
    build_small()
    calls = model(lambda request: Completion(proper_text(request, 3), delay=0.5))
    server = await start()
    async with server.http() as client:
        assert (await client.get("/health")).json() == {"status": "ok"}
        own = {"x-hopgraph-thread": "t-1"}
        asking = asyncio.create_task(server.ask(QUESTION, "prism", extra_headers=own))
        await until(lambda: calls.requests)
        try:
            drain.begin()
            assert (await client.get("/health")).status_code == 503
            with pytest.raises(openai.InternalServerError, match="being stopped"):
                await server.ask(QUESTION, "standard_rag")
            await drain.answered()
            with pytest.raises(openai.InternalServerError, match="being stopped") as raised:
                await asking
            assert raised.value.status_code == 503
            assert raised.value.response.headers["x-hopgraph-thread"] == "t-1"
        finally:
            drain.finish()
    done = len(calls.requests)
    assert all(request.finished for request in calls.requests)
    other = await start()
    answer = await other.ask(QUESTION, "prism", extra_headers=own)
    assert answer.hopgraph["cost"]["calls"] == len(calls.requests)
    assert len(calls.requests) > done


async def test_a_server_that_ends_answers_the_requests_in_progress(home, start, model):
    build_small()
    calls = model(slow(60))
    server = await start()
    asking = asyncio.create_task(server.ask(QUESTION, "standard_rag"))
    await until(lambda: calls.requests)
    await server.service.stop()
    with pytest.raises(openai.InternalServerError, match="being stopped"):
        await asking
