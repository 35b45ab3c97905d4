"""Deadlines of a node and of a run, on a clock that stands still."""

from __future__ import annotations

from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from inference.errors import DeadlineError
from nodes.kit import deadlines

NOW = 1_000.0


@pytest.fixture
def limits(monkeypatch):
    """Where blocks note the seconds that they were given; they end at once, as late."""
    given = []

    @asynccontextmanager
    async def timeout(seconds):
        given.append(seconds)
        yield SimpleNamespace(expired=lambda: True)

    monkeypatch.setattr(deadlines, "asyncio", SimpleNamespace(timeout=timeout))
    monkeypatch.setattr(deadlines, "_begun", type(deadlines._begun)())
    at(monkeypatch, NOW)
    return given


def at(monkeypatch, now):
    monkeypatch.setattr(deadlines, "time", SimpleNamespace(monotonic=lambda: now, time=lambda: now + 50_000))
    monkeypatch.setattr(deadlines, "get_config", lambda: {"metadata": {"langgraph_node": "adder"}})


class Control:
    """What LangGraph has one of for each run."""


def runtime(node=None, run=None, control=None, first=None, info=True):
    return SimpleNamespace(
        context=SimpleNamespace(node_timeout=node, run_timeout=run),
        control=control,
        execution_info=SimpleNamespace(node_first_attempt_time=first and first + 50_000) if info else None,
    )


async def late(given):
    with pytest.raises(DeadlineError) as over:
        async with deadlines.within_deadlines(given):
            raise TimeoutError
    return over.value


async def test_a_node_s_time_is_counted_from_its_first_try(limits):
    await late(runtime(node=60, first=NOW - 10))
    await late(runtime(node=60))
    await late(runtime(node=60, info=False))
    await late(runtime(node=60, first=NOW - 100))
    assert limits == [50, 60, 60, -40]


async def test_a_wall_clock_that_was_set_back_gives_no_node_more_time(limits):
    await late(runtime(node=60, first=NOW + 30))
    await late(runtime(node=60, first=NOW - 0.25))
    assert limits == [60, 59.75]


async def test_a_run_s_time_is_that_of_all_its_calls(limits, monkeypatch):
    one, other = Control(), Control()
    await late(runtime(run=100, control=one))
    at(monkeypatch, NOW + 30)
    await late(runtime(run=100, control=one))
    await late(runtime(run=100, control=other))
    assert limits == [100, 70, 100]


async def test_the_run_that_began_first_is_forgotten_where_there_are_too_many(limits, monkeypatch):
    monkeypatch.setattr(deadlines, "_RUNS", 2)
    runs = [Control(), Control(), Control()]
    for number in (0, 1, 0, 2, 1, 2, 0):
        await late(runtime(run=100, control=runs[number]))
        at(monkeypatch, deadlines.time.monotonic() + 10)
    assert limits == [100, 100, 80, 100, 70, 80, 100]


async def test_the_nearer_deadline_counts_and_is_named(limits):
    run = {"run": 90, "control": Control()}
    error = await late(runtime(node=60, **run))
    assert error.message == "the node took longer than 60 s (in adder)"
    assert error.hint == "resume the run, which has the same time again; or raise node_timeout"
    error = await late(runtime(node=100, **run))
    assert error.message == "the run took longer than 90 s (in adder)"
    assert error.hint == "resume the run, which has the same time again; or raise run_timeout"
    assert limits == [60, 90]


async def test_outside_of_a_node_none_is_named(limits, monkeypatch):
    monkeypatch.setattr(deadlines, "get_config", dict)
    assert (await late(runtime(node=60))).message == "the node took longer than 60 s"


@pytest.mark.parametrize("given", [runtime(), runtime(run=60), runtime(control=Control())])
async def test_without_a_limit_there_is_no_deadline(limits, given):
    async with deadlines.within_deadlines(given):
        done = True
    assert done
    assert limits == []


async def test_a_timeout_of_the_work_itself_is_no_deadline(limits, monkeypatch):
    @asynccontextmanager
    async def timeout(seconds):
        yield SimpleNamespace(expired=lambda: False)

    monkeypatch.setattr(deadlines, "asyncio", SimpleNamespace(timeout=timeout))
    with pytest.raises(TimeoutError, match="the work's own"):
        async with deadlines.within_deadlines(runtime(node=60)):
            raise TimeoutError("the work's own")
