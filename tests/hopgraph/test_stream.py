"""What a run tells while it goes on."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from hopgraph.cli import run_app
from hopgraph.methods import METHODS, load
from hopgraph.run import ask, astream, make_context
from stores.checkpoints import open_checkpoints
from tests.hopgraph.test_run import CONTEXTS, HOPS, LINES, QUESTION, play
from tests.replies import proper_text
from tests.scripted import Completion
from tests.small import INDEX, build_small
from tests.small import QUESTION as SMALL


async def run(method, settings=None):
    """All events and the result."""
    events = []
    async with open_checkpoints() as saver:
        context = make_context(method, settings or {})
        result = await ask(QUESTION, context, saver, thread="t", contexts=CONTEXTS, on_event=events.append)
    return events, result


def of(events, kind):
    return [event for event in events if event["type"] == kind]


async def test_events_inside_a_subgraph_reach_the_outside_in_order_and_once(model):
    model(lambda r: HOPS[r.node])
    events, result = await run("hanrag", {"max_steps": 2})
    # ANRAG, a subgraph, ran twice, with three passages each.
    judged = [event for event in of(events, "judged") if event["node"] == "relevance_discriminator"]
    assert len(judged) == 6
    assert {event["verdict"] for event in judged} == {"relevant"}
    assert [event["step"] for event in of(events, "asked")] == ["root/1", "root/2"]
    assert [len(event["passages"]) for event in of(events, "found")] == [3, 3]
    assert len(of(events, "replied")) == result["cost"]["calls"] == 13
    assert max(Counter(event["call"] for event in of(events, "replied")).values()) == 1
    place = {(event["type"], event.get("step")): at for at, event in enumerate(events) if event["type"] != "step"}
    assert place["asked", "root/1"] < place["found", "root/1"] < place["judged", "root/1/relevance/1"]
    assert place["judged", "root/1/ending"] < place["asked", "root/2"]


@pytest.mark.parametrize("subgraphs", [True, False])
async def test_the_graph_s_own_custom_stream_has_the_events(model, subgraphs):
    model(lambda r: HOPS[r.node])
    given = {"question": QUESTION, "contexts": CONTEXTS}
    stream = load("hanrag").astream(given, context={"max_steps": 1}, stream_mode="custom", subgraphs=subgraphs)
    events = [chunk[1] if subgraphs else chunk async for chunk in stream]
    if subgraphs:
        assert [event["type"] for event in events].count("found") == 1
    assert all(event["type"] in ("asked", "found", "replied", "judged") for event in events)


@pytest.mark.parametrize("method", METHODS)
async def test_every_method_tells_each_search_call_and_step_of_its_result(model, method):
    model(lambda r: proper_text(r, 3))
    build_small()
    events = []
    async with open_checkpoints() as saver:
        context = make_context(method, {"index": INDEX})
        result = await ask(SMALL, context, saver, thread="t", on_event=events.append)
    assert len(of(events, "replied")) == result["cost"]["calls"]
    assert len(of(events, "found")) == len(of(events, "asked")) == result["cost"]["searches"]
    last = {event["step"]["id"]: event["step"] for event in json.loads(json.dumps(of(events, "step")))}
    assert last == {step["id"]: step for step in json.loads(json.dumps(result["trajectory"]))}
    verdicts = {event["step"]: event["verdict"] for event in of(events, "judged")}
    assert all(last[at]["verdict"] == verdict for at, verdict in verdicts.items())


async def test_answers_are_told_as_accepted_or_rejected(model):
    lines = {
        "planner": {"steps": [{"thought": "", "question": QUESTION, "action": "Retrieve"}]},
        "actor": {"answer": "Rome [1]"},
        "reviser": {"answer": "Paris [1]"},
        "generator": {"answer": "Paris"},
    }
    scores = iter([0.1, 0.9])
    labels = iter(["contradictory", "attributable"])

    def script(request):
        if request.node == "accuracy_judge":
            return {"score": next(scores)}
        return {"label": next(labels)} if request.node == "attribution_judge" else lines[request.node]

    model(script)
    events, _ = await run("parrag", {"hop_count": 2, "exemplars": "none"})
    assert [event["verdict"] for event in of(events, "judged")] == ["rejected", "accepted"]


async def test_astream_yields_events_while_the_run_goes_on_and_last_the_result(model):
    server = model(lambda r: Completion(json.dumps(LINES[r.node]), delay=0.2))
    seen, made = [], []
    async with open_checkpoints() as saver:
        async for event in astream(QUESTION, make_context("prism", {}), saver, thread="t", contexts=CONTEXTS):
            seen.append(event)
            made.append(len(server.requests))
    assert seen[-1]["answer"] == "Paris"
    assert made[0] < made[-1] == 6
    assert [event["step"]["id"] for event in seen[:-1] if event["type"] == "step"] == [
        step["id"] for step in seen[-1]["trajectory"]
    ]


def words(tmp_path, *more):
    contexts = tmp_path / "contexts.jsonl"
    contexts.write_text("\n".join(map(json.dumps, CONTEXTS)))
    return ["ask", QUESTION, "--method", "prism", "--contexts", str(contexts), "--stream", *more]


def test_on_the_command_line_events_are_lines_on_standard_error(model, tmp_path, capsys):
    model(play)
    assert run_app(words(tmp_path)) == 0
    out, err = capsys.readouterr()
    assert "Paris" in out
    assert any("root/generator" in line and "Paris" in line for line in err.splitlines())
    assert "replied (" in err
    assert "replied (" not in out


def test_with_json_they_are_json_there_and_the_result_is_all_of_standard_output(model, tmp_path, capsys):
    model(play)
    assert run_app(words(tmp_path, "--json")) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["answer"] == "Paris"
    events = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    assert Counter(event["type"] for event in events)["replied"] == 6
    assert events[-1]["step"]["answer"] == "Paris"


def test_control_characters_of_a_model_do_not_reach_the_terminal(model, tmp_path, capsys):
    model(lambda r: {"answer": "\x1b[2J\x07Paris\nRome"} if r.node == "generator" else play(r))
    assert run_app(words(tmp_path)) == 0
    assert "\x1b[2J" not in capsys.readouterr().err
