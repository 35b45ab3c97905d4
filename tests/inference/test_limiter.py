"""The limit of calls in flight: never more, by priority, none lost."""

from __future__ import annotations

import asyncio

from hopgraph.simulation.endpoint import Completion as SimulatedReply
from hopgraph.simulation.endpoint import Endpoint as Simulated
from inference.chat import Message
from inference.endpoint import Endpoint
from inference.limiter import Limiter, priority
from inference.settings import Settings


async def run(limiter, jobs, seconds=0.0):
    """Runs jobs, each with its priority; gives the order in which they got a place and how many had one at most."""
    order, now, most = [], 0, 0

    async def one(name, number):
        nonlocal now, most
        priority.set(number)
        async with limiter.attempt():
            order.append(name)
            now, most = now + 1, max(most, now + 1)
            await asyncio.sleep(seconds)
            now -= 1

    await asyncio.gather(*(asyncio.create_task(one(*job)) for job in jobs))
    return order, most


async def test_no_more_than_the_limit_and_all_get_through():
    order, most = await run(Limiter(3), [(n, 0) for n in range(20)], 0.001)
    assert most == 3
    assert order == list(range(20))  # ties are FIFO


async def test_lower_priority_numbers_go_first():
    order, _ = await run(Limiter(1), [("first", 9), ("new", 7), ("old", 1), ("new too", 7), ("older", 0)])
    assert order == ["first", "older", "old", "new", "new too"]


async def test_a_priority_may_be_a_function_that_is_asked_for_each_call():
    order, _ = await run(Limiter(1), [("first", 0), ("late", lambda: 2), ("early", lambda: 1)])
    assert order == ["first", "early", "late"]


async def test_a_further_try_goes_before_calls_that_wait():
    limiter, order = Limiter(1), []

    async def one(name, first):
        async with limiter.attempt(first=first):
            order.append(name)

    async with limiter.attempt():
        tasks = [asyncio.create_task(one(*job)) for job in (("waits", False), ("tried before", True))]
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert order == ["tried before", "waits"]


async def test_the_place_of_a_task_that_was_cancelled_is_not_lost():
    limiter = Limiter(1)
    async with limiter.attempt():
        waiting = [asyncio.create_task(run(limiter, [(n, n)])) for n in range(3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        waiting[0].cancel()
    waiting[1].cancel()  # after the place may have been handed to it
    await asyncio.gather(*waiting, return_exceptions=True)
    assert (await asyncio.wait_for(run(limiter, [("last", 0)]), 1))[0] == ["last"]
    assert limiter.in_flight == 0


async def test_auto_lets_more_in_while_nothing_is_refused():
    limiter = Limiter("auto")
    changes = []
    limiter.on_change(lambda: changes.append(limiter.limit))
    reached, all_in = asyncio.Event(), 0

    async def one():
        nonlocal all_in
        async with limiter.attempt():
            all_in += 1
            if all_in == 60:
                reached.set()
            await reached.wait()

    await asyncio.wait_for(asyncio.gather(*(one() for _ in range(60))), 30)
    assert changes == [32, 64]
    assert limiter.in_flight == 0


async def test_auto_sends_nothing_while_the_server_rations_by_the_second_and_asks_to_wait():
    limiter = Limiter("auto")
    loop = asyncio.get_running_loop()
    for pause in (0.05, 0.3):  # the second refusal is of a request that went out within the first pause
        async with limiter.attempt() as attempt:
            limiter.refused(attempt, pause)
    refused = loop.time()
    async with limiter.attempt():
        assert loop.time() - refused > 0.25


async def fast_enough(slots, **server):
    """Answers 150 requests of .2 s; gives the server and the endpoint."""
    replies = Simulated(lambda _: SimulatedReply("x"), "m", latency=0.2, slots=slots, **server)
    with replies.running():
        endpoint = Endpoint(replies.url, "m", Settings())
        await endpoint.describe()
        asked = [endpoint.complete([Message("user", "x")], request_id=str(n)) for n in range(150)]
        await asyncio.gather(*asked)
        await endpoint.close()
    assert len(replies.requests) == 150
    return replies, endpoint


async def test_the_default_follows_what_a_server_like_vllm_tells():
    _, endpoint = await fast_enough(4, tells=True)
    assert endpoint.limiter.adaptive.informed
    assert endpoint.limiter.limit <= 10


async def test_a_server_that_refuses_is_asked_less_and_no_call_fails():
    server, endpoint = await fast_enough(None, most=24)
    assert server.refused <= 64
    assert endpoint.limiter.limit <= 32
