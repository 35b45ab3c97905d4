"""Every method on the real local server, over plain HTTP: run, breakpoints, edits, forks, decisions, kill -9."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from tests.graphs import test_parrag
from tests.scripted import ScriptedModel, plausible
from tests.studio import client
from tests.studio.conftest import QUESTION, asked, start_studio

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
GRAPHS = list(json.loads((ROOT / "langgraph.json").read_text())["graphs"])
ROUTES = ("straightforward", "single_step", "compound", "complex")


def context(graph, **more):
    return {"index": "small"} | ({} if graph == "compactrag_reader" else {"top_k": 2}) | more


@pytest.mark.parametrize("route", ROUTES)
def test_hanrag_takes_every_route(studio, route):
    """The subgraph `anrag` gets a checkpointer of its own."""
    given = context("hanrag", route=route, max_steps=2)
    thread, values = client.run(studio.url, "hanrag", asked("hanrag"), context=given)
    assert values["status"] == "answered"
    nodes = {step["node"] for step in values["trajectory"]}
    assert ("retriever" in nodes) == (route != "straightforward")
    assert client.fork(studio.url, "hanrag", thread, context=given)["status"] == "answered"


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_breakpoint_after_a_node_stops_behind_it(studio, graph):
    thread = client.new_thread(studio.url, graph)
    there = client.finish(studio.url, graph, thread, asked(graph), context=context(graph), interrupt_after=["intake"])
    assert there["next"]
    assert there["next"] != ["intake"]
    assert client.finish(studio.url, graph, thread, None, context=context(graph))["next"] == []


@pytest.mark.parametrize("graph", ["prunerag", "parrag", "hanrag"])
def test_a_person_decides(studio, graph):
    given = context(graph, review="human", **({"route": "complex", "max_steps": 2} if graph == "hanrag" else {}))
    thread = client.new_thread(studio.url, graph)
    there = client.finish(studio.url, graph, thread, asked(graph), context=given)
    decided = 0
    while there["next"]:
        rows = client.waiting(studio.url, thread)
        assert rows, there
        decisions = {row["id"]: row["value"]["suggested"] for row in rows}
        there = client.finish(studio.url, graph, thread, None, command={"resume": decisions}, context=given)
        decided += len(rows)
    assert decided
    assert there["values"]["status"] == "answered"
