"""Fuzzing: whatever a model or its server replies, to any node of any method, a run ends with a status."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import traceback
from collections import Counter
from typing import Any

import pytest

from hopgraph.methods import METHODS, READERS, context_class, load
from hopgraph.record import read_record
from hopgraph.run import ask, make_context, read_thread
from hopgraph.views.terminal import render_result
from hopgraph.views.trace import render_trace
from inference.errors import EndpointError
from stores.checkpoints import open_checkpoints
from tests.replies import broken, proper_text
from tests.scripted import Completion, Raw, Request
from tests.small import GRAPHS, INDEX, QUESTION, VARIANTS, build_small, given

AT_ONCE = 8
ASKS_AS = {"setwise": "selector", "decomposer_again": "decomposer"}
"""Nodes whose calls go under another node's name."""
SHARE = 0.6
"""Of the replies that are broken: enough proper ones that the later nodes have their turn."""


class Fuzzer:
    """A script whose replies are broken at random; it counts the broken ones by graph and node."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.broken: Counter[tuple[str, str]] = Counter()
        self.crashes: list[str] = []

    def __call__(self, request: Request) -> Completion | Raw | str:
        rng = random.Random(f"{self.seed} broken {request.id}")
        graph, node = request.id.rsplit(".", 3)[1:3]
        if rng.random() > SHARE:
            return proper_text(request, self.seed)
        self.broken[graph, node] += 1
        return broken(request, rng)


async def run_method(method: str, settings: dict[str, Any], thread: str, saver: Any, *, pages: bool) -> str:
    """Ask one question; what became of it."""
    context = make_context(method, {"index": INDEX, **settings})
    result = await ask(QUESTION, context, saver, thread=thread)
    json.dumps(result, allow_nan=False).encode()
    ended = (await read_thread(thread, saver)).finished
    kind = result["error"]["kind"] if result["status"] == "failed" else ""
    assert result["status"] in ("answered", "unanswerable", "failed")
    assert bool(result["answer"]) == (result["status"] == "answered")
    # What failed because of the server can be resumed; what failed because of the model's words has ended.
    assert ended == (kind in ("", "model_output")), (thread, kind)
    if pages:
        render_result(result, {})
        assert "<script>alert" not in render_trace(await read_record(thread, saver), {})
    return kind or result["status"]


async def run_reader(graph: str, settings: dict[str, Any], thread: str, saver: Any) -> str:
    context = make_reader(graph, settings)
    try:
        config = {"configurable": {"thread_id": thread}}
        state = await load(graph, saver).ainvoke(given(graph), config, context=context)
    except EndpointError as error:
        return error.kind
    json.dumps(state, allow_nan=False).encode()
    return state["error"]["kind"] if state.get("error") else "answered"


def make_reader(graph: str, settings: dict[str, Any]) -> Any:
    return context_class(graph).model_validate({"index": INDEX, **settings})


async def fuzz(fuzzer: Fuzzer, replies: int, *, pages: int) -> Counter[tuple[str, str]]:
    """Run the graphs by turns until they have had that many broken replies; how the runs ended, by graph.

    Args:
        fuzzer: The script of the model.
        replies: Broken replies in all.
        pages: Every so many runs are also shown.
    """
    ended: Counter[tuple[str, str]] = Counter()
    numbers = itertools.count()

    async def worker(saver: Any) -> None:
        while fuzzer.broken.total() < replies:
            number = next(numbers)
            graph = GRAPHS[number % len(GRAPHS)]
            thread = f"{graph}-{number}"
            settings = random.Random(f"{fuzzer.seed} {thread}").choice(VARIANTS.get(graph, [{}]))
            try:
                if graph in READERS:
                    kind = await run_reader(graph, settings, thread, saver)
                else:
                    kind = await run_method(graph, settings, thread, saver, pages=number // len(GRAPHS) % pages == 0)
            except Exception:
                fuzzer.crashes.append(f"{thread} {settings}\n{traceback.format_exc(limit=-6)}")
                kind = "crash"
            ended[graph, kind] += 1

    async with open_checkpoints() as saver, asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(worker(saver))
    return ended


def asked_nodes() -> set[tuple[str, str]]:
    """Every node that asks a model, by graph."""
    found = set()
    for graph in GRAPHS:
        for name in context_class(graph).prompts():
            extra: Any = context_class(graph).model_fields[name].json_schema_extra
            found |= {(graph, ASKS_AS.get(node, node)) for node in extra["langgraph_nodes"]}
    return found


@pytest.fixture
def fuzzer(model, monkeypatch):
    def start(seed: int) -> Fuzzer:
        monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "0")
        fuzzer = Fuzzer(seed)
        server = model(fuzzer)
        monkeypatch.setenv("HOPGRAPH_ATTRIBUTION_URL", server.url)
        build_small()
        return fuzzer

    return start


def test_every_method_is_fuzzed():
    assert set(METHODS) <= set(GRAPHS)


async def test_two_hundred_broken_replies_crash_nothing(fuzzer):
    fuzz_all = fuzzer(1)
    ended = await fuzz(fuzz_all, 200, pages=5)
    assert not fuzz_all.crashes, "\n".join(fuzz_all.crashes[:8])
    assert fuzz_all.broken.total() >= 200
    assert {graph for graph, _ in ended} == set(GRAPHS)


@pytest.mark.slow
async def test_ten_thousand_broken_replies_to_all_nodes_crash_nothing(fuzzer, capsys):
    fuzz_all = fuzzer(20261121)
    ended = await fuzz(fuzz_all, 10_000, pages=10)
    with capsys.disabled():
        print(f"\n{fuzz_all.broken.total():,} broken replies, {ended.total():,} runs")
        for key, count in sorted(ended.items()):
            print(f"  {key[0]:<20}{key[1]:<20}{count:>6}")
    assert not fuzz_all.crashes, "\n".join(fuzz_all.crashes[:8])
    assert fuzz_all.broken.total() >= 10_000
    assert not asked_nodes() - set(fuzz_all.broken)
