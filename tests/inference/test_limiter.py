"""The limit of calls in flight: never more, by priority, none lost."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from hopgraph.simulation.endpoint import Completion as SimulatedReply
from hopgraph.simulation.endpoint import Endpoint as Simulated
from inference.adaptive import OPENING
from inference.chat import Message
from inference.endpoint import Endpoint
from inference.endpoints import get_endpoint
from inference.limiter import Limiter, priority
from inference.settings import Settings, get_settings


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


async def test_auto_lets_more_in_as_replies_come_and_says_so():
    limiter, calls = Limiter("auto"), 10 * OPENING
    changes = []
    limiter.add_listener(lambda: changes.append(limiter.limit))
    _, most = await run(limiter, [(n, 0) for n in range(calls)], 0.02)
    assert changes[0] == 2 * OPENING
    assert most >= 2 * OPENING
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


def in_threads(*works):
    """Run each in an event loop of its own, side by side."""
    with ThreadPoolExecutor(len(works)) as pool:
        for future in [pool.submit(asyncio.run, asyncio.wait_for(work, 60)) for work in works]:
            future.result()


def test_loops_of_several_threads_share_the_limit_and_all_get_through():
    limiter, lock, now, most = Limiter(3), threading.Lock(), 0, 0

    async def one(number):
        nonlocal now, most
        async with limiter.attempt():
            with lock:
                now, most = now + 1, max(most, now + 1)
            try:
                await asyncio.sleep(0.001 * (number % 3))
            finally:
                with lock:
                    now -= 1

    async def work():
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(number)) for number in range(200)]
            for task in tasks[::5]:
                await asyncio.sleep(0)
                task.cancel()
        assert sum(not task.cancelled() for task in tasks) == 160

    in_threads(*(work() for _ in range(4)))
    assert most == 3
    assert limiter.in_flight == 0
    assert asyncio.run(run(limiter, [("last", 0)]))[0] == ["last"]


def test_a_place_that_goes_to_another_loop_wakes_it():
    limiter, order = Limiter(1), []
    taken, waiting = threading.Event(), threading.Event()

    async def first():
        async with limiter.attempt():
            taken.set()
            await asyncio.to_thread(waiting.wait)
            order.append("first")

    async def second():
        await asyncio.to_thread(taken.wait)
        waits = asyncio.create_task(run(limiter, [("second", 0)]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        waiting.set()
        order.extend((await waits)[0])

    in_threads(first(), second())
    assert order == ["first", "second"]


def test_a_loop_that_was_left_in_the_middle_of_a_call_keeps_no_place():
    limiter = Limiter(1)
    left = asyncio.new_event_loop()

    async def take():
        async with limiter.attempt():
            await asyncio.sleep(60)

    tasks = [left.create_task(take()) for _ in range(2)]  # one has the place, one waits for it
    left.run_until_complete(asyncio.sleep(0.01))
    order, _ = asyncio.run(asyncio.wait_for(run(limiter, [("other", 0), ("more", 0)]), 10))
    assert order == ["other", "more"]
    for task in tasks:
        task.cancel()
    left.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    left.close()
    assert limiter.in_flight == 0


def test_listeners_are_called_in_their_own_loop():
    limiter = Limiter("auto")
    heard = []

    async def listen():
        changed = asyncio.Event()

        def listener():
            heard.append(threading.get_ident())
            changed.set()

        limiter.add_listener(listener)
        ready.set()
        await changed.wait()
        limiter.remove_listener(listener)
        assert heard == [threading.get_ident()]

    async def change():
        await asyncio.to_thread(ready.wait)
        limiter.set_slots(7)

    ready = threading.Event()
    in_threads(listen(), change())
    assert heard


def test_calls_of_a_synchronous_program_and_of_its_own_loop_share_an_endpoints_limit(monkeypatch):
    server = Simulated(lambda _: SimulatedReply("x"), "m", latency=0.05)
    most = 0
    enter = server.enter

    def counted():
        nonlocal most
        accepted = enter()
        most = max(most, server.in_flight)
        return accepted

    server.enter = counted

    async def work():
        endpoint = get_endpoint("m")
        await asyncio.gather(*(endpoint.complete([Message("user", "x")], request_id=str(n)) for n in range(12)))
        await endpoint.close()

    with server.running():
        monkeypatch.setenv("HOPGRAPH_LLM_URL", server.url)
        monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "2")
        get_settings.cache_clear()
        in_threads(work(), work())
    assert len(server.requests) == 24
    assert most <= 2
