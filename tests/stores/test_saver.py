"""How checkpoints are kept: packed, whatever is cancelled, and readable as they were written before."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import zlib
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TypedDict

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

import stores.saver
import stores.serializer
from inference.errors import StoreError
from stores.async_saver import InThreads
from stores.checkpoints import kept_threads, open_checkpoints, open_served_checkpoints
from stores.serializer import PackingSerializer

ROOT = Path(__file__).parents[2]
CONFIG = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
LARGE = [{"id": f"root/{number}", "question": "Who directed it?"} for number in range(200)]


class Rows(TypedDict):
    rows: list[int]


def checkpoint(value):
    return empty_checkpoint() | {"channel_values": {"rows": value}}


@pytest.mark.parametrize("value", [LARGE, [], b"\0\1", "é" * 1000, None, {"a": [1, 2.5, True, ("x", 1)]}])
def test_what_is_written_is_read(value):
    serde = PackingSerializer()
    plain = JsonPlusSerializer()
    assert serde.loads_typed(serde.dumps_typed(value)) == plain.loads_typed(plain.dumps_typed(value))


def test_large_values_are_packed_and_small_ones_are_left_alone():
    serde, plain = PackingSerializer(), JsonPlusSerializer()
    kind, packed = serde.dumps_typed(LARGE)
    assert kind == "msgpack+zlib"
    assert len(packed) < len(plain.dumps_typed(LARGE)[1]) / 5
    assert serde.dumps_typed([1]) == plain.dumps_typed([1])


def test_what_was_written_without_packing_is_read():
    assert PackingSerializer().loads_typed(JsonPlusSerializer().dumps_typed(LARGE)) == LARGE


def test_packed_bytes_that_are_damaged_cut_or_absurdly_long_are_refused(monkeypatch):
    serde = PackingSerializer()
    kind, packed = serde.dumps_typed(LARGE)
    for wrong in (packed[:-9], packed[:40] + b"xxxx" + packed[44:], b""):
        with pytest.raises(ValueError, match=r"."):
            serde.loads_typed((kind, wrong))
    monkeypatch.setattr(stores.serializer, "_MAX_UNPACKED", 1000)
    with pytest.raises(ValueError, match="too long"):
        serde.loads_typed((kind, zlib.compress(b"\0" * 100_000)))


async def test_a_damaged_packed_checkpoint_is_a_clear_error(home):
    async with open_checkpoints() as saver:
        await saver.aput(CONFIG, checkpoint(LARGE), {}, {})
    with sqlite3.connect(home / "checkpoints.sqlite") as connection:
        connection.execute("UPDATE checkpoints SET checkpoint = substr(checkpoint, 1, 50)")
    connection.close()
    async with open_checkpoints() as saver:
        with pytest.raises(StoreError, match=r"checkpoints\.sqlite"):
            await saver.aget_tuple(CONFIG)


@pytest.fixture
def writing(home):
    """Another process that writes to the file: from the call until the one of what it gives."""
    with ExitStack() as stack:

        def begin():
            connection = sqlite3.connect(home / "checkpoints.sqlite", isolation_level=None)
            stack.callback(connection.close)
            connection.execute("BEGIN IMMEDIATE")
            return lambda: connection.execute("ROLLBACK")

        yield begin


async def test_what_has_to_wait_for_another_process_holds_up_nothing_else_and_is_written_in_order(home, writing):
    async with open_checkpoints() as saver:
        first = checkpoint([0])
        config = await saver.aput(CONFIG, first, {}, {})
        end = writing()
        puts = [
            asyncio.create_task(saver.aput(CONFIG, first | {"channel_values": {"rows": [number]}}, {}, {}))
            for number in range(1, 6)
        ]
        for _ in range(20):
            await asyncio.sleep(0.005)  # the event loop goes on
        assert not any(put.done() for put in puts)
        end()
        await asyncio.gather(*puts)
        found = await saver.aget_tuple(config)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"rows": [5]}


async def waiting_puts(saver, *values):
    """Checkpoints that are being written, and wait for another process."""
    puts = [asyncio.create_task(saver.aput(CONFIG, checkpoint(value), {}, {})) for value in values]
    await asyncio.sleep(0.05)
    assert not any(put.done() for put in puts)
    return puts


async def test_what_waits_is_written_before_its_thread_is_deleted(home, writing):
    async with open_checkpoints() as saver:
        end = writing()
        puts = await waiting_puts(saver, [0], [1], [2])
        deleting = asyncio.create_task(saver.adelete_thread("t"))
        await asyncio.sleep(0.05)
        end()
        await asyncio.gather(*puts, deleting)
        assert await saver.aget_tuple(CONFIG) is None


async def test_what_can_t_be_moved_to_the_file_is_written_all_the_same(home, monkeypatch):
    monkeypatch.setattr(stores.saver, "_WRITES_PER_WAL_CHECKPOINT", 1)
    moves = []

    def refuse(action, *about):
        moves.append(about[0]) if action == sqlite3.SQLITE_PRAGMA else None
        return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_PRAGMA else sqlite3.SQLITE_OK

    async with open_checkpoints() as saver:
        saver.conn.set_authorizer(refuse)  # type: ignore[attr-defined]
        config = await saver.aput(CONFIG, checkpoint([1]), {}, {})
        assert await saver.aget_tuple(config) is not None
    assert moves == ["wal_checkpoint"]


async def test_a_text_that_can_t_be_read_is_a_clear_error(home):
    async with open_checkpoints() as saver:
        await saver.aput(CONFIG, checkpoint(1), {}, {})
    with sqlite3.connect(home / "checkpoints.sqlite") as connection:
        connection.execute("UPDATE checkpoints SET type = CAST(x'ff' AS TEXT)")
    connection.close()
    async with open_checkpoints() as saver:
        with pytest.raises(StoreError, match=r"checkpoints\.sqlite"):
            await saver.aget_tuple(CONFIG)


async def test_closing_finishes_what_waits_and_who_comes_later_is_told(home, writing):
    async with open_checkpoints() as saver:
        asyncio.get_running_loop().call_later(0.5, writing())
        (waiting,) = await waiting_puts(saver, [1])
    await waiting
    with pytest.raises(StoreError, match="closed"):
        await saver.aget_tuple(CONFIG)
    async with open_checkpoints() as saver:
        assert await saver.aget_tuple(CONFIG) is not None


async def test_where_nothing_may_block_the_event_loop_the_thread_does_everything(home):
    async with open_served_checkpoints() as saver:
        saver._at_once.conn.set_authorizer(lambda *_: sqlite3.SQLITE_DENY)  # type: ignore[attr-defined]
        config = await saver.aput(CONFIG, checkpoint([1]), {}, {})
        await saver.aput_writes(config, [("rows", 2)], "task")
        found = await saver.aget_tuple(config)
    assert found is not None
    assert found.pending_writes == [("task", "rows", 2)]


async def test_what_is_cancelled_while_it_waits_is_written_all_the_same(home, writing):
    """A finished model call must be kept, though the run is stopped that very moment."""
    async with open_checkpoints() as saver:
        end = writing()
        for put in await waiting_puts(saver, [0], [1], [2]):
            put.cancel()
            with pytest.raises(asyncio.CancelledError):
                await put
        end()
    async with open_checkpoints() as saver:
        rows = [row.checkpoint["channel_values"]["rows"] async for row in saver.alist(CONFIG)]
    assert sorted(rows) == [[0], [1], [2]]


async def test_an_error_of_what_waited_reaches_who_waits_for_it_and_nobody_else(home, writing):
    async with open_checkpoints() as saver:
        end = writing()
        puts = await waiting_puts(saver, [1], object(), [2], object())
        end()
        first, wrong, third, wrong_too = await asyncio.gather(*puts, return_exceptions=True)
        assert isinstance(first, dict)
        assert isinstance(third, dict)
        assert isinstance(wrong, Exception)
        assert isinstance(wrong_too, Exception)
        assert len([row async for row in saver.alist(CONFIG)]) == 2
        end = writing()
        saver.conn.execute("PRAGMA query_only=ON")  # type: ignore[attr-defined]
        with pytest.raises(StoreError, match="readonly"):
            await saver.aput(CONFIG, checkpoint([3]), {}, {})
        end()


async def test_the_log_does_not_grow_with_what_is_written(home, monkeypatch):
    monkeypatch.setattr(stores.saver, "_WRITES_PER_WAL_CHECKPOINT", 10)
    log = home / "checkpoints.sqlite-wal"
    async with open_checkpoints() as saver:
        sizes = []
        for number in range(400):
            values = {"rows": [str(number) * 5, *range(300)]}
            config = await saver.aput(CONFIG, empty_checkpoint() | {"channel_values": values}, {}, {})
            await saver.aput_writes(config, [("rows", number)], "task")
            sizes.append(log.stat().st_size)
    assert max(sizes) < 2 * max(sizes[:40])  # it would be ten times that


async def test_a_run_stopped_between_a_node_and_the_choice_of_the_next_goes_on_from_the_node(home):
    """LangGraph keeps what the node wrote beside the error; without the choice, that reads as a run that is over."""
    choosing = asyncio.Event()
    ran = []

    async def first(state):
        ran.append("first")
        return {"rows": [1]}

    async def second(state):
        return {"rows": [*state["rows"], 2]}

    async def choose(state):
        if not choosing.is_set():
            choosing.set()
            await asyncio.Event().wait()
        return "second"

    builder = StateGraph(Rows)
    builder.add_node("first", first)
    builder.add_node("second", second)
    builder.add_edge(START, "first")
    builder.add_conditional_edges("first", choose, ["second"])
    async with open_checkpoints() as saver:
        graph = builder.compile(checkpointer=saver)

        async def run(given):
            return [row async for row in graph.astream(given, CONFIG, subgraphs=True, stream_mode="values")]

        running = asyncio.create_task(run({"rows": []}))
        await choosing.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await run(None))[-1] == ((), {"rows": [1, 2]})
        assert ran == ["first", "first"]


async def test_what_a_person_decided_is_kept_though_the_node_fails_after_it(home):
    tries = []

    async def asking(state):
        answer = interrupt("well?")
        tries.append(answer)
        if len(tries) == 1:
            raise ConnectionError
        return {"rows": [answer]}

    builder = StateGraph(Rows)
    builder.add_node("asking", asking)
    builder.add_edge(START, "asking")
    async with open_checkpoints() as saver:
        graph = builder.compile(checkpointer=saver)
        (asked,) = (await graph.ainvoke({"rows": []}, CONFIG))["__interrupt__"]
        with pytest.raises(ConnectionError):
            await graph.ainvoke(Command(resume={asked.id: 7}), CONFIG)
        assert (await graph.ainvoke(None, CONFIG))["rows"] == [7]
        assert tries == [7, 7]


async def test_a_list_of_threads_that_can_t_be_read_is_said(home):
    async with open_checkpoints() as saver:
        await saver.aput(CONFIG, checkpoint(1), {}, {})
    with sqlite3.connect(home / "checkpoints.sqlite") as connection:
        connection.execute("UPDATE checkpoints SET metadata = 'x'")
    connection.close()
    async with open_checkpoints() as saver:
        with pytest.raises(StoreError, match=r"checkpoints\.sqlite"):
            await kept_threads(saver, 3)


async def test_checkpoints_are_listed_newest_first_and_deleted_with_their_thread(home):
    async with open_checkpoints() as saver:
        config = CONFIG
        for number in range(3):
            config = await saver.aput(config, checkpoint(number), {"step": number}, {})
        await saver.aput_writes(config, [("rows", 9)], "task")
        found = [row async for row in saver.alist(CONFIG)]
        assert [row.checkpoint["channel_values"]["rows"] for row in found] == [2, 1, 0]
        assert found[0].pending_writes == [("task", "rows", 9)]
        assert len([row async for row in saver.alist(CONFIG, limit=2)]) == 2
        await saver.adelete_thread("t")
        assert await saver.aget_tuple(CONFIG) is None


async def test_a_checkpoint_of_a_later_langgraph_is_refused_and_one_of_an_earlier_read(home):
    async with open_checkpoints() as saver:
        await saver.aput(CONFIG, checkpoint([1]) | {"v": 1}, {}, {})
        assert (await saver.aget_tuple(CONFIG)).checkpoint["channel_values"] == {"rows": [1]}
        await saver.aput(CONFIG, checkpoint([1]) | {"v": "4"}, {}, {})
        with pytest.raises(StoreError, match="not a checkpoint"):
            await saver.aget_tuple(CONFIG)
        await saver.aput(CONFIG, checkpoint([1]) | {"v": 99}, {}, {})
        with pytest.raises(StoreError, match=r"checkpoints\.sqlite: checkpoint format 99 is newer") as caught:
            await saver.aget_tuple(CONFIG)
    assert "upgrade" in caught.value.hint


async def test_a_file_from_before_tasks_had_paths_is_used_as_it_is(home):
    async with open_checkpoints() as saver:
        config = await saver.aput(CONFIG, checkpoint([1]), {}, {})
        await saver.aput_writes(config, [("rows", 1)], "old")
    with sqlite3.connect(home / "checkpoints.sqlite") as connection:
        connection.execute("ALTER TABLE writes DROP COLUMN task_path")
    connection.close()
    async with open_checkpoints() as saver:
        await saver.aput_writes(config, [("rows", 2)], "new", "path")
        found = await saver.aget_tuple(CONFIG)
    assert found.pending_writes == [("old", "rows", 1), ("new", "rows", 2)]


@pytest.mark.parametrize(
    ("table", "reason", "hint"),
    [
        ("CREATE TABLE checkpoints (a)", "no column named thread_id", "belongs to another program"),
        (None, "unable to open", "is the path that of a file"),
    ],
)
async def test_what_is_no_checkpoint_file_is_named_and_left_alone(tmp_path, table, reason, hint):
    path = tmp_path / "other.sqlite"
    if table is None:
        path.mkdir()
    else:
        with sqlite3.connect(path) as connection:
            connection.execute(table)
        connection.close()
    with pytest.raises(StoreError, match=rf"other\.sqlite: .*{reason}") as caught:
        async with open_checkpoints(str(path)) as saver:
            await saver.aput(CONFIG, checkpoint([1]), {}, {})
    assert hint in caught.value.hint
    if table is not None:
        connection = sqlite3.connect(path)
        assert connection.execute("SELECT sql FROM sqlite_master WHERE name = 'checkpoints'").fetchone() == (table,)
        connection.close()


WRITER = """
import asyncio, sys
from langgraph.checkpoint.base import empty_checkpoint
from stores.checkpoints import open_checkpoints

async def main():
    async with open_checkpoints(sys.argv[1]) as saver:
        print("ready", flush=True)
        sys.stdin.readline()
        config = {"configurable": {"thread_id": sys.argv[2], "checkpoint_ns": ""}}
        for number in range(300):
            value = empty_checkpoint() | {"channel_values": {"rows": [number] * 500}}
            config = await saver.aput(config, value, {"step": number}, {})
            await saver.aput_writes(config, [("rows", number)], "task")

asyncio.run(main())
"""


def test_two_processes_that_write_to_one_file_lose_nothing(home):
    path = home / "checkpoints.sqlite"
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", WRITER, str(path)]
    writers = [subprocess.Popen([*command, name], cwd=ROOT, stdin=pipe, stdout=pipe, text=True) for name in "ab"]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=120)
        assert writer.returncode == 0

    async def kept(name):
        async with open_checkpoints() as saver:
            return [row async for row in saver.alist({"configurable": {"thread_id": name}})]

    for name in "ab":
        rows = asyncio.run(kept(name))
        assert [row.checkpoint["channel_values"]["rows"][0] for row in rows] == list(range(299, -1, -1))
        assert [row.pending_writes for row in rows] == [[("task", "rows", n)] for n in range(299, -1, -1)]


async def test_a_synchronous_saver_in_threads_does_what_ours_does(tmp_path):
    async with open_checkpoints(str(tmp_path / "checkpoints.sqlite")) as ours:
        with closing(sqlite3.connect(tmp_path / "checkpoints.sqlite", check_same_thread=False)) as file:
            theirs = InThreads(SqliteSaver(file, serde=PackingSerializer()))
            for thread, saver in (("a", ours), ("b", theirs)):
                config = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
                for step in range(2):
                    metadata = {"source": "loop", "step": step, "parents": {}}
                    config = await saver.aput(config, checkpoint(LARGE), metadata, {})
                await saver.aput_writes(config, [("rows", [1])], "task")
            for saver in (ours, theirs):
                for thread in "ab":
                    found = await saver.aget_tuple({"configurable": {"thread_id": thread}})
                    assert found.checkpoint["channel_values"]["rows"] == LARGE
                    assert found.pending_writes == [("task", "rows", [1])]
                    listed = saver.alist({"configurable": {"thread_id": thread}}, filter={"step": 0}, limit=5)
                    assert [row.metadata["step"] async for row in listed] == [0]
            await ours.adelete_thread("b")
            await theirs.adelete_thread("a")
            assert [row async for row in ours.alist(None)] == [row async for row in theirs.alist(None)] == []
            assert theirs.get_next_version(None, None).startswith("0000")
