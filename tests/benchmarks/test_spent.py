"""Tests of benchmarks/spent.py: whose time it is."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import pytest

BUSY = 0.05


@pytest.fixture
def spent(monkeypatch):
    """The benchmark, which finds its neighbours as a script does."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    return import_module("spent")


def busy():
    started = time.thread_time()
    while time.thread_time() - started < BUSY:
        pass


def test_what_threads_are_handed_counts_for_the_module_of_the_function(spent):
    submit = ThreadPoolExecutor.submit
    with spent.by_thread() as seconds:
        asyncio.run(asyncio.to_thread(busy))
        with ThreadPoolExecutor(1) as pool:
            pool.submit(busy).result()
        busy()
    assert ThreadPoolExecutor.submit is submit
    assert seconds[__name__] >= 2 * BUSY
    assert seconds[spent.LOOP] >= BUSY
    assert f"{__name__} " in spent.listed(seconds, 1)


def test_a_thread_s_error_reaches_who_handed_it_over_and_its_time_is_counted(spent):
    def fails():
        busy()
        raise ValueError("on purpose")

    with spent.by_thread() as seconds, pytest.raises(ValueError, match="on purpose"):
        asyncio.run(asyncio.to_thread(fails))
    assert seconds[__name__] >= BUSY


def test_a_function_is_of_the_package_that_its_file_is_in(spent):
    assert spent.owner(("/site-packages/langgraph/pregel/loop.py", 1, "tick")) == "LangGraph"
    assert spent.owner(("/site-packages/langgraph/checkpoint/sqlite/aio.py", 1, "aput")) == "SQLite"
    assert spent.owner(("/usr/lib/python3.11/json/encoder.py", 1, "encode")) == "JSON"
