"""The bound on calls in flight: never more, the oldest first, none lost."""

from __future__ import annotations

import asyncio

from inference.slots import Slots, turn


async def run(slots, jobs, seconds=0.0):
    """Runs jobs, each with its turn; gives the order in which they got a slot and how many had one at most."""
    order, now, most = [], 0, 0

    async def one(name, number):
        nonlocal now, most
        turn.set(number)
        async with slots:
            order.append(name)
            now, most = now + 1, max(most, now + 1)
            await asyncio.sleep(seconds)
            now -= 1

    await asyncio.gather(*(asyncio.create_task(one(*job)) for job in jobs))
    return order, most


async def test_no_more_than_the_bound_and_all_get_through():
    order, most = await run(Slots(3), [(n, 0) for n in range(20)], 0.001)
    assert most == 3
    assert order == list(range(20))  # equals in the order in which they came


async def test_the_oldest_question_goes_first():
    order, _ = await run(Slots(1), [("first", 9), ("new", 7), ("old", 1), ("new too", 7), ("older", 0)])
    assert order == ["first", "older", "old", "new", "new too"]


async def test_a_slot_of_a_task_that_was_cancelled_is_not_lost():
    slots = Slots(1)
    async with slots:
        waiting = [asyncio.create_task(run(slots, [(n, n)])) for n in range(3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        waiting[0].cancel()
    waiting[1].cancel()  # after the slot may have been handed to it
    await asyncio.gather(*waiting, return_exceptions=True)
    assert (await asyncio.wait_for(run(slots, [("last", 0)]), 1))[0] == ["last"]
    assert slots._free == 1
