"""`hopgraph doctor --ray` on a real Ray cluster of three nodes on this machine."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from hopgraph.cluster import nodes
from hopgraph.evaluation import identity
from inference.settings import get_settings
from tests.reading import corpus
from tests.scripted import plausible


@pytest.mark.slow
def test_the_doctor_looks_at_every_node_and_names_what_differs(cluster, hopgraph, model, tmp_path, monkeypatch):
    server = model(plausible)
    corpus(2, "towns")

    def findings():
        _, out, _ = hopgraph("doctor", "--ray", cluster.address, "--json")
        rows = [row for row in json.loads(out)["findings"] if row["what"].startswith(("cluster", "node "))]
        return rows[0]["found"], {row["what"]: (row["state"], row["found"]) for row in rows[1:]}

    first, found = findings()
    assert "3 nodes, 3 CPUs" in first
    assert list(found.values()) == [("ok", "the same versions, indexes, prompts and model")] * 3

    elsewhere = {"HOPGRAPH_HOME": str(tmp_path / "elsewhere"), "HOPGRAPH_LLM_URL": server.url}
    monkeypatch.setattr(nodes, "variables_of_workers", lambda _: elsewhere)
    _, found = findings()
    assert len(found) == 3
    for state, text in found.values():
        assert state == "bad"
        assert text.startswith("other index: towns: ")


def test_a_node_without_a_way_to_the_model_also_tells_what_else_it_lacks(home, monkeypatch):
    seen = replace(nodes._seen(), versions={**identity.versions(), "langgraph": "0.0.1"})
    monkeypatch.setattr(os, "environ", dict(os.environ))
    variables = {"HOPGRAPH_HOME": str(home), "HOPGRAPH_LLM_URL": "http://127.0.0.1:9/v1"}
    version, model = nodes.check_here(seen, variables)
    get_settings.cache_clear()
    assert version.startswith('other version: langgraph: "0.0.1", now ')
    assert "can't reach the model's server at http://127.0.0.1:9/v1" in model


def test_a_cluster_that_is_not_there_is_a_finding(hopgraph, model):
    model(plausible)
    code, out, _ = hopgraph("doctor", "--ray", "nowhere", "--json")
    assert code == 1
    found = json.loads(out)["findings"][-1]
    assert (found["what"], found["state"]) == ("cluster", "bad")
    assert "--ray nowhere: must be HOST:PORT, auto or local" in found["found"]
