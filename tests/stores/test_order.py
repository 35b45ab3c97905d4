"""A finished call is stored before the checkpoint that follows it, whichever of the two writes is slower."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres import running_postgres

ROOT = Path(__file__).parents[2]
GRAPH = """
import asyncio, operator, os, signal, sys, time
from pathlib import Path
from typing import Annotated
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import task
from langgraph.graph import START, StateGraph
from langgraph.types import Send
from typing_extensions import TypedDict
from stores.checkpoints import open_checkpoints
from stores.saver import LoopSaver

PLACE, CALLS, KILLED = sys.argv[1], Path(sys.argv[2]), sys.argv[3] == "killed"

class State(TypedDict):
    found: Annotated[list[str], operator.add]

@task
async def call(name: str) -> str:
    with CALLS.open("a") as file:
        file.write(name + "\\n")
    return name + "!"

async def ask(state) -> State:
    return {"found": [await call(state["name"])]}

async def answer(state: State) -> State:
    return {"found": [await call("answer")]}

graph = StateGraph(State)
graph.add_node("ask", ask)
graph.add_node("answer", answer)
graph.add_conditional_edges(START, lambda state: [Send("ask", {"name": name}) for name in "xyz"], ["ask"])
graph.add_edge("ask", "answer")

def slow(storing):
    def stored(*args):
        time.sleep(0.3)
        return storing(*args)
    return stored

def deadly(putting):
    async def put(self, config, checkpoint, metadata, versions):
        if metadata["step"] == 1:  # the one after the calls
            os.kill(os.getpid(), signal.SIGKILL)
        return await putting(self, config, checkpoint, metadata, versions)
    return put

if KILLED and "://" in PLACE:
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    AsyncPostgresSaver._dump_writes = slow(AsyncPostgresSaver._dump_writes)
    AsyncPostgresSaver.aput = deadly(AsyncPostgresSaver.aput)
elif KILLED:
    SqliteSaver.put_writes = slow(SqliteSaver.put_writes)
    LoopSaver.aput = deadly(LoopSaver.aput)

async def main():
    async with open_checkpoints(PLACE, in_thread=sys.argv[4] == "thread") as saver:
        app = graph.compile(checkpointer=saver)
        given = {"found": []} if KILLED else None
        state = await app.ainvoke(given, {"configurable": {"thread_id": "t"}}, durability="sync")
        print(sorted(state["found"]))

asyncio.run(main())
"""


@pytest.fixture(params=["file", "file, in a thread", "postgres"])
def place(request, tmp_path: Path) -> Iterator[str]:
    if request.param != "postgres":
        yield str(tmp_path / "checkpoints.sqlite")
        return
    pytest.importorskip("psycopg")
    with running_postgres() as url:
        yield url


def test_a_process_killed_when_it_stores_a_checkpoint_has_stored_the_calls_before_it(place, request, tmp_path):
    """LangGraph does not ensure this, also with durability="sync": the calls of a whole step would be made again."""
    calls = tmp_path / "calls"

    def run(how: str) -> subprocess.CompletedProcess[str]:
        thread = "thread" if "thread" in request.node.callspec.id else "loop"
        command = [sys.executable, "-c", GRAPH, place, str(calls), how, thread]
        return subprocess.run(command, cwd=ROOT, text=True, capture_output=True, timeout=120)

    assert run("killed").returncode == -9
    assert sorted(calls.read_text().split()) == ["x", "y", "z"]
    resumed = run("resumed")
    assert resumed.stdout.strip() == "['answer!', 'x!', 'y!', 'z!']", resumed.stderr
    assert sorted(calls.read_text().split()) == ["answer", "x", "y", "z"]
