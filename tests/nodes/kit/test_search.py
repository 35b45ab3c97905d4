"""Searches of a node: over an index and over given passages, what listeners hear, and the ledger."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from inference.embedded_server import usable_cores
from inference.settings import get_settings
from nodes.intake import store_given
from nodes.kit import search as kit
from stores.build import build_index
from stores.index import open_index
from stores.passages import Passage

FILMS = {
    "tide": "Tide is a film by Ann Lee.",
    "dune": "Dune is a film by Vera Kim.",
    "lee": "Ann Lee was born in Paris.",
}


@pytest.fixture
def state(home):
    """Of a run over an index of three passages."""
    build_index("films", [Passage(key, key.title(), text) for key, text in FILMS.items()])
    return {"given": [], "index": {"name": "films", "hash": open_index("films").hash}}


@pytest.fixture
def given(home):
    """Of a run over two passages that came with the question."""
    rows = [{"title": key.title(), "text": FILMS[key]} for key in ("dune", "tide")]
    return {"given": store_given(rows), "index": None}


QUERIES = {"root/1": "Who directed Tide?", "root/2": "Where was Ann Lee born?"}


async def test_a_search_says_what_it_looks_for_and_what_it_found(state, node):
    found = await kit.search(state, node(retriever="sparse", top_k=1), QUERIES)
    assert [[ref["id"] for ref in row] for row in found.hits] == [["tide"], ["lee"]]
    assert {key: passage.text for key, passage in found.passages.items()} == {
        key: FILMS[key] for key in ("tide", "lee")
    }
    said = [(event["type"], event["step"], event["node"], event["question"]) for event in node.heard]
    assert said == [(kind, step, "adder", text) for kind in ("asked", "found") for step, text in QUERIES.items()]
    assert [[hit["id"] for hit in event["passages"]] for event in node.heard[2:]] == [["tide"], ["lee"]]
    assert [call["id"] for call in found.calls] == [f"local.prism.search.{key}" for key in QUERIES]
    assert [(call["step"], call["node"], call["found"]) for call in found.calls] == [
        ("root/1", "adder", ["tide"]), ("root/2", "adder", ["lee"]),
    ]  # fmt: skip
    assert {ref["found_by"] for row in found.hits for ref in row} == {"sparse"}


async def test_the_call_s_own_mode_number_step_and_node_come_before_the_context_s(state, node):
    found = await kit.search(
        state, node(retriever="sparse", top_k=1), QUERIES, mode="dense", top_k=3, step="root/both", node="retriever"
    )
    assert [len(row) for row in found.hits] == [3, 3]
    assert {ref["found_by"] for row in found.hits for ref in row} == {"dense"}
    assert {(event["step"], event["node"]) for event in node.heard} == {("root/both", "retriever")}
    assert {(call["step"], call["node"]) for call in found.calls} == {("root/both", "retriever")}
    assert len({call["id"] for call in found.calls}) == 2


async def test_given_passages_are_ranked_and_the_index_is_left_alone(given, node):
    found = await kit.search(given, node(top_k=1), QUERIES)
    assert [[ref["title"] for ref in row] for row in found.hits] == [["Tide"], ["Tide"]]
    assert found.hits[0][0]["found_by"] == "given"
    whole = await kit.search(given, node(top_k=5), {"root": "Who directed Tide?"})
    assert [ref["title"] for ref in whole.hits[0]] == ["Tide", "Dune"], "the one without a word of it comes last"


async def test_the_ledger_has_the_time_of_all_queries_together(given, node, monkeypatch):
    clock = iter([100.0, 102.5])
    monkeypatch.setattr(kit, "time", SimpleNamespace(time=lambda: 7.0, perf_counter=lambda: next(clock)))
    found = await kit.search(given, node(), QUERIES)
    assert [(call["started"], call["seconds"]) for call in found.calls] == [(7.0, 2.5)] * 2


@pytest.mark.parametrize(
    ("setting", "threads"),
    [(None, usable_cores()), ("EMBED_URL", kit._THREADS_FOR_SERVERS), ("CHROMA_URL", kit._THREADS_FOR_SERVERS)],
)
def test_more_searches_than_cores_run_at_once_where_a_server_does_the_work(monkeypatch, setting, threads):
    if setting:
        monkeypatch.setenv(f"HOPGRAPH_{setting}", "http://127.0.0.1:9")
        get_settings.cache_clear()
    assert kit.search_threads() == threads
