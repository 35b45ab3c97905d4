"""LangGraph's own conformance tests of checkpointers, run on ours as `open_checkpoints` opens them."""

from __future__ import annotations

import operator
import sqlite3
from typing import Annotated, TypedDict

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.graph import START, StateGraph

from inference.errors import InputError, StoreError
from stores.checkpoints import kept_threads, open_checkpoints, open_served_checkpoints
from tests.postgres import running_postgres

BASE = {"put", "put_writes", "get_tuple", "list", "delete_thread"}
OPTIONAL = {"delete_for_runs", "copy_thread", "prune"}


def config(thread: str) -> dict:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


async def conformance(opened) -> tuple[set[str], list[str]]:
    """Capabilities that were tested, and the tests that failed."""

    @checkpointer_test(name="hopgraph")
    async def checkpointer():
        async with opened() as saver:
            yield saver

    results = (await validate(checkpointer)).results
    assert sum(result.tests_passed for result in results.values()) > 40
    tested = {name for name, result in results.items() if result.detected}
    return tested, [name for result in results.values() for name in result.failures]


@pytest.mark.parametrize("opened", [open_checkpoints, open_served_checkpoints])
async def test_checkpoints_in_a_file_conform(home, opened):
    assert await conformance(opened) == (BASE | OPTIONAL, [])


async def test_checkpoints_in_postgres_conform():
    pytest.importorskip("psycopg")
    with running_postgres() as url:
        assert await conformance(lambda: open_checkpoints(url)) == (BASE | {"prune"}, [])


class Rows(TypedDict):
    rows: Annotated[list[int], operator.add]


def stepping(saver, fail: list[int]):
    """A graph of three nodes, the last of which fails while `fail` says so."""

    async def last(state):
        if fail:
            raise ConnectionError
        return {"rows": [3]}

    builder = StateGraph(Rows)
    builder.add_sequence([("first", lambda state: {"rows": [1]}), ("second", lambda state: {"rows": [2]})])
    builder.add_node("last", last)
    builder.add_edge(START, "first")
    builder.add_edge("second", "last")
    return builder.compile(checkpointer=saver)


async def test_a_pruned_run_and_a_copy_of_it_are_resumed_where_they_stopped(home):
    fail = [1]
    async with open_checkpoints() as saver:
        graph = stepping(saver, fail)
        with pytest.raises(ConnectionError):
            await graph.ainvoke({"rows": []}, config("t"))
        await saver.aprune(["t"])
        await saver.acopy_thread("t", "copy")
        assert len([row async for row in saver.alist(config("t"))]) == 1
        fail.clear()
        assert (await graph.ainvoke(None, config("t")))["rows"] == [1, 2, 3]
        assert (await graph.ainvoke(None, config("copy")))["rows"] == [1, 2, 3]
        assert len([row async for row in saver.alist(config("t"))]) == 2


async def test_threads_with_delta_channels_are_not_pruned_to_the_latest(home):
    """The value of such a channel is made from the writes of all earlier checkpoints."""
    async with open_checkpoints() as saver:
        for thread in ("plain", "delta"):
            for step in range(2):
                counters = {"counters_since_delta_snapshot": {"rows": (1, 1)}} if thread == "delta" else {}
                await saver.aput(config(thread), empty_checkpoint(), {"step": step, **counters}, {})
        with pytest.raises(InputError, match="thread delta"):
            await saver.aprune(["plain", "delta"])
        with pytest.raises(InputError, match="unknown strategy 'oldest'"):
            await saver.aprune(["plain"], strategy="oldest")
        assert len([row async for row in saver.alist(config("plain"))]) == 2  # nothing was pruned
        await saver.aprune(["delta"], strategy="delete")
        assert [row.id for row in (await kept_threads(saver, 9))[0]] == ["plain"]


async def test_what_fails_to_be_pruned_is_left_whole_and_the_error_names_the_file(home):
    async with open_checkpoints() as saver:
        saved = await saver.aput(config("t"), empty_checkpoint(), {}, {})
        await saver.aput_writes(saved, [("rows", 1)], "task")

        def refuse(action, table, *_):
            deleting = action == sqlite3.SQLITE_DELETE and table == "checkpoints"
            return sqlite3.SQLITE_DENY if deleting else sqlite3.SQLITE_OK

        saver.conn.set_authorizer(refuse)
        with pytest.raises(StoreError, match=r"checkpoints\.sqlite"):
            await saver.aprune(["t"], strategy="delete")
        found = await saver.aget_tuple(config("t"))
    assert found is not None
    assert found.pending_writes == [("task", "rows", 1)]
