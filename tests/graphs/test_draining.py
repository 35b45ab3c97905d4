"""A run that is asked to drain (LangGraph's `RunControl`) stops between steps, and goes on as if it never had."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl

from hopgraph.methods import READERS, load
from hopgraph.run import make_context, resume
from stores.checkpoints import open_checkpoints
from tests.replies import proper_text
from tests.small import GRAPHS, INDEX, VARIANTS, build_small, given

THREADS = ["a", "b", "c", "d"]
"""With the replies of these, the graphs of `FANS_OUT` make several calls in one step."""
FANS_OUT = {"prunerag", "hanrag", "parrag"}
CASES = {
    "-".join([graph, *(f"{key}={value}" for key, value in settings.items())]): (graph, settings)
    for graph in GRAPHS
    for settings in VARIANTS.get(graph, [{}])
}


class Runs:
    """Runs of one graph. If `draining`, each run is asked to drain before it starts, and again by each first call."""

    def __init__(self, graph: str, settings: dict[str, Any], saver: Any) -> None:
        self.graph = graph
        self.settings = {"index": INDEX, **settings}
        self.saver = saver
        self.control = RunControl()
        self.draining = False
        self.calls: list[int] = []
        """Calls of each go."""

    def reply(self, request: Any) -> str:
        self.calls[-1] += 1
        if self.draining:
            self.control.request_drain()
        return proper_text(request)

    async def go(self, thread: str, begun: bool) -> bool:
        """Begin or continue a run; whether it ended."""
        about = {"method": self.graph, "id": "ask", "question": "?", "context": self.settings}
        config: Any = {"configurable": {"thread_id": thread}, "metadata": {"hopgraph": json.dumps(about)}}
        self.calls.append(0)
        self.control = RunControl()
        if self.draining and not begun:
            self.control.request_drain()
        context = None if self.graph in READERS else make_context(self.graph, self.settings)
        try:
            await load(self.graph, self.saver).ainvoke(
                None if begun else given(self.graph),
                config,
                context=context or self.settings,
                control=self.control,
                durability="sync",
            )
        except GraphDrained:
            return False
        return True

    async def result(self, thread: str) -> dict[str, Any]:
        """What the run ended with, but for times."""
        if self.graph in READERS:
            state = await load(self.graph, self.saver).aget_state({"configurable": {"thread_id": thread}})
            return {key: state.values.get(key) for key in ("pairs", "dropped", "uncovered")}
        result: Any = await resume(thread, self.saver)
        return {**result, "cost": {**result["cost"], "seconds": 0}}


@pytest.mark.parametrize(("graph", "settings"), CASES.values(), ids=CASES)
async def test_a_run_drained_at_each_of_its_steps_ends_as_a_whole_one_and_repeats_no_call(
    model, monkeypatch, home, graph, settings
):
    run: Runs
    server = model(lambda request: run.reply(request))
    monkeypatch.setenv("HOPGRAPH_ATTRIBUTION_URL", server.url)
    build_small()
    # The replies depend on the thread's id: both runs have the same, in different files.
    async with open_checkpoints(str(home / "whole.sqlite")) as saver:
        run = Runs(graph, settings, saver)
        assert [await run.go(thread, begun=False) for thread in THREADS] == [True] * len(THREADS)
        whole = [await run.result(thread) for thread in THREADS]
    calls = Counter(request.id for request in server.requests)
    server.requests.clear()
    async with open_checkpoints(str(home / "drained.sqlite")) as saver:
        run = Runs(graph, settings, saver)
        run.draining = True
        for thread in THREADS:
            begun = False
            while not await run.go(thread, begun):
                begun = True
            assert begun
        assert [await run.result(thread) for thread in THREADS] == whole
    assert Counter(request.id for request in server.requests) == calls
    assert len(run.calls) > 2 * len(THREADS) or calls.total() == len(THREADS)  # also drained after the first call
    assert max(run.calls) > 1 or graph not in FANS_OUT or "relevance" in settings.get("ablate", [])
