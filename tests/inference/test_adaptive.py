"""How many calls are sent to servers of many kinds, under a simulated clock: the same every time."""

from __future__ import annotations

import pytest

from inference.adaptive import MAX_LIMIT, OPENING, AdaptiveLimit
from inference.fixed_limit import FixedLimit
from tests.inference.simulated_servers import Client, Clock, Server, seconds


def ratio(make, best, **options):
    """Time with the limit that adapts by that with the best fixed one, of several seeds; and the last client."""
    told = options.pop("told", False)
    known = taken = 0.0
    for seed in range(6 if options.get("spread") else 1):
        known += seconds(make, FixedLimit(best), seed=seed, **options)[0]
        more, client = seconds(make, AdaptiveLimit(), told=told, seed=seed, **options)
        taken += more
    return taken / known, client


@pytest.mark.parametrize("spread", [0.0, 0.8])
@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("slots", [1, 8, 16, 32, 64])
def test_a_server_with_slots_is_kept_busy(slots, told, spread):
    taken, client = ratio(lambda clock: Server(clock, slots), slots, told=told, spread=spread, begins=0.01)
    assert taken <= 1.10
    assert client.server.peak <= max(3 * slots, 2 * OPENING)


@pytest.mark.parametrize(("told", "most"), [(True, 1.12), (False, 1.35)])
def test_a_server_with_256_slots_is_found_by_doubling(told, most):
    """1,200 calls of which six follow each other take 8 s: four doublings show in them, not in five times as many."""
    assert ratio(lambda clock: Server(clock, 256), 256, told=told, begins=0.01)[0] <= most
    assert ratio(lambda clock: Server(clock, 256), 256, told=told, begins=0.01, questions=1000)[0] <= 1.10


@pytest.mark.parametrize("slots", [1, 8, 64])
def test_one_call_a_question_is_fast_too(slots):
    assert ratio(lambda clock: Server(clock, slots), slots, chain=1, begins=0.01)[0] <= 1.05


@pytest.mark.parametrize("told", [False, True])
def test_few_wait_in_a_server_with_few_slots(told):
    _, client = seconds(lambda clock: Server(clock, 8), AdaptiveLimit(), told=told)
    assert client.limit.limit <= 16


@pytest.mark.parametrize(("spread", "most"), [(0.0, 1.15), (0.8, 1.30)])
@pytest.mark.parametrize("knee", [8, 16, 32, 64])
def test_a_server_that_slows_down_beyond_some_calls_is_kept_near_them(knee, spread, most):
    taken, client = ratio(lambda clock: Server(clock, knee=knee), knee, begins=0.01, spread=spread)
    assert taken <= most
    assert client.limit.limit <= 2 * knee


@pytest.mark.parametrize("knee", [8, 16])
def test_a_server_that_is_overloaded_from_the_start_is_relieved(knee):
    """It is much slower with as many calls as are sent first; what is lost is lost once."""
    clock = Clock()
    client = Client(clock, Server(clock, knee=knee), AdaptiveLimit(), questions=500)
    client.start()
    clock.run(lambda: client.done)
    late = [time for time in client.replies if time > client.replies[300]]
    assert len(late) / (late[-1] - late[0]) >= 0.9 * knee


@pytest.mark.parametrize("spread", [0.0, 0.8])
@pytest.mark.parametrize("most", [1, 8, 32])
def test_a_server_that_refuses_more_than_some_at_a_time_refuses_few(most, spread):
    taken, client = ratio(lambda clock: Server(clock, most=most), most, spread=spread, begins=0.01)
    assert taken <= 1.12
    assert client.refusals <= 64


@pytest.mark.parametrize(("spread", "most"), [(0.0, 1.15), (0.8, 1.25)])
@pytest.mark.parametrize("rate", [5, 20, 100])
def test_a_server_that_refuses_more_than_some_a_second_refuses_few(rate, spread, most):
    taken, client = seconds(lambda clock: Server(clock, rate=rate), AdaptiveLimit(), spread=spread, begins=0.01)
    _, fixed = seconds(lambda clock: Server(clock, rate=rate), FixedLimit(256), spread=spread, begins=0.01)
    assert taken <= most * max(1200 / rate + 3, fixed.replies[-1])
    assert client.refusals <= 120


@pytest.mark.parametrize("spread", [0.0, 0.8])
@pytest.mark.parametrize("rate", [1, 5])
def test_a_server_that_refuses_more_than_some_a_minute_is_left_alone_until_the_next(rate, spread):
    taken, client = seconds(lambda clock: Server(clock, rate=rate, period=60), AdaptiveLimit(), spread=spread)
    assert taken <= 1.05 * 1200 / rate
    assert client.refusals <= 220


def test_it_follows_a_server_that_becomes_slow_and_fast_again():
    """Throughput is what the server has, before, during and after."""
    clock = Clock()
    server = Server(clock, 64)
    client = Client(clock, server, AdaptiveLimit(), questions=4000)
    client.start()
    clock.after(60, lambda: server.change_speed(0.25))
    clock.after(180, lambda: server.change_speed(1.0))
    clock.run(lambda: client.done)

    def rate(start, end):
        return sum(start < time <= end for time in client.replies) / (end - start)

    assert rate(20, 60) >= 0.9 * 64
    assert rate(80, 180) >= 0.9 * 16
    assert rate(200, 300) >= 0.9 * 64


def test_replies_of_unlike_lengths_are_not_taken_for_congestion():
    clock = Clock()
    client = Client(clock, Server(clock), AdaptiveLimit(), questions=2000, spread=1.0, begins=0.0001)
    client.start()
    clock.run(lambda: client.done)
    assert client.limit.limit >= 256


@pytest.mark.parametrize("told", [False, True])
def test_two_clients_share_a_server(told):
    clock = Clock()
    server = Server(clock, 64)
    first, second = (Client(clock, server, AdaptiveLimit(), questions=1500, told=told, seed=n) for n in (1, 2))
    first.start()
    clock.after(10, second.start)
    clock.run(lambda: first.done or second.done)
    begun = min(second.replies)
    both = [sum(time > begun for time in client.replies) for client in (first, second)]
    assert min(both) >= 0.25 * sum(both)
    assert sum(both) / (clock.now - begun) >= 0.9 * 64
    assert server.peak <= 8 * 64


def test_the_figures_of_one_server_among_several_are_not_trusted():
    limit = AdaptiveLimit()
    for _ in range(40):
        limit.sent(0.0)
    for _ in range(10):
        limit.set_load(running=4, waiting=4)
    assert not limit.informed
    assert limit.limit == OPENING


def test_the_slots_of_a_server_are_the_limit_and_a_few_more():
    limit = AdaptiveLimit()
    limit.set_slots(4)
    assert limit.limit == 5


def test_there_is_an_end_to_it():
    limit = AdaptiveLimit()
    for _ in range(100):
        while limit.in_flight < limit.limit:
            limit.sent(0.0)
        limit.set_load(running=limit.in_flight, waiting=0)
    assert limit.limit == MAX_LIMIT


def test_a_limit_that_was_not_reached_is_not_lowered():
    """A person asks now and then, and then evaluates: that few replies came meanwhile says nothing of the server."""
    limit = AdaptiveLimit()
    for attempt in [limit.sent(0.0) for _ in range(OPENING)]:
        limit.replied(attempt, 1.0)
    assert limit.limit == 2 * OPENING
    limit.sent(1.0)  # this one takes long
    for now in range(2, 40):
        limit.replied(limit.sent(now - 0.5), float(now))
    while limit.in_flight < limit.limit:
        limit.sent(60.0)
    limit.tick(60.1)
    assert limit.limit == 2 * OPENING


def test_a_server_that_collapses_is_left_alone_before_its_late_replies_come():
    limit = AdaptiveLimit()
    for attempt in [limit.sent(0.0) for _ in range(OPENING)]:
        limit.replied(attempt, 1.0)
    while limit.in_flight < limit.limit:
        limit.sent(1.0)
    limit.tick(2.5)
    assert limit.limit == 2 * OPENING  # half as many replies a second as hoped for would not be late yet
    limit.tick(3.5)
    assert limit.limit == OPENING // 2
