"""Every method on the real local server, over plain HTTP: run, breakpoints, edits, forks, decisions, kill -9."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from tests.scripted import ScriptedModel, plausible
from tests.studio import client
from tests.studio.conftest import QUESTION, asked, start_studio

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
GRAPHS = list(json.loads((ROOT / "langgraph.json").read_text())["graphs"])
ROUTES = ("straightforward", "single_step", "compound", "complex")
READER = "compactrag_reader"


def context(graph, **more):
    return {"index": "small"} | ({} if graph == READER else {"top_k": 2}) | more


def ended(graph, values):
    """Whether a run came to its end."""
    return bool(values["trajectory"]) if graph == READER else values["status"] == "answered"


@pytest.mark.parametrize("graph", GRAPHS)
def test_it_stops_at_every_node_and_goes_on_from_an_edited_state(studio, graph):
    edited = {"question": "Who directed it?"}
    stops, values = client.step_through(studio.url, graph, asked(graph), edited, context=context(graph))
    opened = client.call(studio.url, "GET", f"/assistants/{client.assistant(studio.url, graph)}/graph")
    nodes = {node["id"] for node in opened["nodes"]} - {"__start__", "__end__"}
    assert set(stops) <= nodes
    assert len(set(stops)) >= min(len(nodes), 2)
    assert ended(graph, values)
    assert graph == READER or values | edited == values


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_breakpoint_behind_a_node_stops_there(studio, graph):
    thread = client.new_thread(studio.url, graph)
    given = {"context": context(graph)}
    there = client.finish(studio.url, graph, thread, asked(graph), interrupt_after="*", **given)
    done = [row["next"] for row in client.history(studio.url, thread)][1]
    assert there["next"]
    assert there["next"] != done
    end = client.finish(studio.url, graph, thread, None, **given)
    assert end["next"] == []
    assert ended(graph, end["values"])


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_finished_run_is_forked_in_its_middle(studio, graph):
    thread, _ = client.run(studio.url, graph, asked(graph), context=context(graph))
    assert ended(graph, client.fork(studio.url, graph, thread, context=context(graph)))


@pytest.mark.parametrize("route", ROUTES)
def test_hanrag_takes_every_route(studio, route):
    """All but one lead through a subgraph, which has checkpoints of its own."""
    given = context("hanrag", route=route, max_steps=2)
    thread, values = client.run(studio.url, "hanrag", asked("hanrag"), context=given)
    assert values["status"] == "answered"
    nodes = {step["node"] for step in values["trajectory"]}
    assert ("retriever" in nodes) == (route != "straightforward")
    assert client.fork(studio.url, "hanrag", thread, context=given)["status"] == "answered"


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


def test_all_methods_go_on_after_kill_9_in_their_first_call(home_folder, tmp_path):
    """One server is killed with a run of every graph under way; the next one ends them all."""
    wanted = [graph for graph in GRAPHS if graph != READER]
    place = tmp_path / "checkpoints.sqlite"
    killed = threading.Event()

    def slow(request):
        if not killed.is_set():
            killed.wait(300)
        return plausible(request)

    with ScriptedModel(slow).running() as model:
        first = start_studio(home_folder, model, "--jobs", str(len(wanted)), checkpoints=place)
        runs = {}
        for graph in wanted:
            thread = client.new_thread(first.url, graph)
            given = {"context": context(graph), "durability": "sync"}
            runs[graph] = thread, client.start(first.url, graph, thread, asked(graph), **given)
        client.wait_until(lambda: len(model.requests) >= len(wanted), "a call of every method", 300)
        first.kill()
        killed.set()
        second = start_studio(home_folder, model, "--jobs", "2", checkpoints=place)
        try:
            for graph, (thread, run) in runs.items():
                client.wait_until(
                    lambda at=f"/threads/{thread}/runs/{run}": (
                        client.call(second.url, "GET", at)["status"] not in ("pending", "running")
                    ),
                    f"the end of {graph}",
                    300,
                )
                values = client.state(second.url, thread)["values"]
                assert values["status"] == "answered", (graph, client.error_of(second.url, thread))
                assert values["question"] == QUESTION
        finally:
            second.kill()


def test_a_prompt_field_shows_the_text_and_is_edited(studio, script):
    fields = client.prompts(studio.url, "standard_rag")
    text = fields["prompt_answer"]["default"]
    assert "{{question}}" in text
    assert fields["prompt_answer"]["type"] == "string"
    model = script(plausible)
    begin = len(model.requests)
    for prompt in (None, text, f"{text}\nBe brief."):
        more = {} if prompt is None else {"prompt_answer": prompt}
        _, values = client.run(studio.url, "standard_rag", asked(""), context=context("", **more))
        assert values["settings"].get("prompt_answer") == (prompt if prompt != text else None)
    sent = [request.body["messages"] for request in model.requests[begin:]]
    assert sent[0] == sent[1]
    assert sent[2][-1]["content"].endswith("Be brief.")


def test_runs_answer_with_the_embedded_model_and_no_endpoint(home_folder, tmp_path):
    """Its server is found, and started, while runs go on: whatever blocks the event loop is an error there."""
    server = start_studio(home_folder, None, checkpoints=tmp_path / "checkpoints.sqlite")
    try:
        for graph in ("no_retrieval", "standard_rag"):
            _, values = client.run(server.url, graph, asked(graph), context=context(graph, max_tokens=64))
            assert values["trajectory"], graph
    finally:
        server.kill()
