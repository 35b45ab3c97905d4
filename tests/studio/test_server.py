"""Every graph through the real local server, by LangGraph's own client: schemas, streams, settings, assistants."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.studio.conftest import QUESTION, asked

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
GRAPHS = list(json.loads((ROOT / "langgraph.json").read_text())["graphs"])
HERE = {"index": "small", "top_k": 2}


def context(graph):
    return {"index": "small"} if graph == "compactrag_reader" else HERE


def default(client, graph):
    """Id of the assistant that the server itself makes of a graph."""
    (found,) = client.assistants.search(graph_id=graph, metadata={"created_by": "system"})
    return found["assistant_id"]


def wait(client, thread, run):
    """The run when it has ended."""
    client.runs.join(thread, run["run_id"])
    return client.runs.get(thread, run["run_id"])


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_graph_has_schemas_and_opens_to_its_subgraphs(studio, graph):
    schemas = studio.client.assistants.get_schemas(default(studio.client, graph))
    fields = schemas["context_schema"]["properties"]
    assert fields
    for name, field in fields.items():
        assert field.get("title"), name
        assert field.get("description"), name
        assert "default" in field, name
    assert set(schemas["input_schema"]["properties"]) & {"question", "passage"}
    opened = studio.client.assistants.get_graph(default(studio.client, graph), xray=True)
    nodes = {node["id"] for node in opened["nodes"]}
    prompts = {name: field for name, field in fields.items() if name.startswith("prompt_")}
    own = {node.rpartition(":")[2] for node in nodes}
    for name, field in prompts.items():
        assert field["langgraph_type"] == "prompt", name
        assert set(field["langgraph_nodes"]) <= own, name
    assert all(edge.get("data") for edge in opened["edges"] if edge.get("conditional"))


def test_hanrag_opens_to_anrag(studio):
    opened = studio.client.assistants.get_graph(default(studio.client, "hanrag"), xray=True)
    assert {"anrag:retriever", "anrag:relevance_discriminator", "anrag:generator"} <= {n["id"] for n in opened["nodes"]}
    subgraphs = studio.client.assistants.get_subgraphs(default(studio.client, "hanrag"))
    assert list(subgraphs) == ["anrag"]


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_run_streams_its_steps_and_ends(studio, graph):
    thread = studio.client.threads.create(graph_id=graph)["thread_id"]
    parts = list(
        studio.client.runs.stream(
            thread,
            graph,
            input=asked(graph),
            context=context(graph),
            stream_mode=["updates", "values"],
            stream_subgraphs=True,
        )
    )
    assert not [part for part in parts if part.event.startswith("error")]
    updates = [part for part in parts if part.event.startswith("updates")]
    assert len(updates) > 1
    last = [part for part in parts if part.event == "values"][-1].data
    if graph == "compactrag_reader":
        assert last["trajectory"]
    else:
        assert (last["status"], last["question"]) == ("answered", QUESTION)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"top_k": 0}, "top_k"),
        ({"topk": 3}, "topk: unknown setting"),
        ({"order": "x"}, "order"),
        ({"ablate": ["x"]}, "ablate"),
        ({"prompt_selector": "without variables"}, "prompt_selector"),
        ({"index": "nowhere"}, "no index named 'nowhere'"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(studio, wrong, named):
    client = studio.client
    thread = client.threads.create(graph_id="prism")["thread_id"]
    run = client.runs.create(thread, "prism", input=asked("prism"), context=HERE | wrong)
    assert wait(client, thread, run)["status"] == "error"
    assert named in client.threads.get(thread)["error"]["message"]


def test_the_named_assistants_are_there_once(studio, home_folder, scripted):
    names = [row["name"] for row in studio.client.assistants.search(limit=1000)]
    assert "prism: without analyzer" in names
    assert "parrag: paper" in names
    assert "hanrag on small" in names
    assert len(names) == len(set(names))
