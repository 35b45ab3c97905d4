"""What tracers hear of searches and of failed attempts, through LangChain's own callback managers."""

from __future__ import annotations

from uuid import uuid4

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, AsyncCallbackManager

from inference.errors import EndpointError
from inference.http import Refusal
from nodes.kit import tracers

ABOUT = {"node": "retriever", "retriever": "hybrid", "top_k": 5}


class Tracer(AsyncCallbackHandler):
    """Notes what it hears."""

    def __init__(self):
        self.heard = []

    async def on_retriever_start(self, serialized, query, *, run_id, metadata=None, **rest):
        self.heard.append(("start", query, metadata))

    async def on_retriever_end(self, documents, **rest):
        self.heard.append(("end", [(one.id, one.page_content, one.metadata) for one in documents]))

    async def on_retriever_error(self, error, **rest):
        self.heard.append(("error", str(error)))

    async def on_custom_event(self, name, data, *, run_id, **rest):
        self.heard.append((name, data, run_id))


@pytest.fixture
def tracer(monkeypatch):
    """The tracer of the running node, whose own run is its manager's parent."""
    made = Tracer()
    made.manager = AsyncCallbackManager([made], parent_run_id=uuid4())
    monkeypatch.setattr(tracers, "get_config", lambda: {"callbacks": made.manager})
    return made


def hit(key, score):
    return {"id": key, "preview": f"Text of {key}.", "score": score}


async def test_a_tracer_hears_of_each_query_and_of_its_hits(tracer):
    queries = {"root/1": "Who?", "root/2": "Where?"}
    async with tracers.traced_searches({"index": {"name": "films"}}, queries, **ABOUT) as found:
        assert [kind for kind, *_ in tracer.heard] == ["start", "start"]
        found.extend([[hit("a", 0.5), hit("b", 0.25)], []])
    about = {"hopgraph_node": "retriever", "hopgraph_index": "films", "hopgraph_retriever": "hybrid"}
    about["hopgraph_top_k"] = 5
    assert tracer.heard == [
        ("start", "Who?", about | {"hopgraph_step": "root/1"}),
        ("start", "Where?", about | {"hopgraph_step": "root/2"}),
        ("end", [("a", "Text of a.", {"score": 0.5}), ("b", "Text of b.", {"score": 0.25})]),
        ("end", []),
    ]


async def test_where_passages_are_given_no_index_is_named(tracer):
    async with tracers.traced_searches({"index": None}, {"root": "Who?"}, **ABOUT) as found:
        found.append([])
    assert tracer.heard[0][2]["hopgraph_index"] is None


async def test_a_search_that_fails_is_an_error_of_every_query(tracer):
    with pytest.raises(ValueError, match="gone"):
        async with tracers.traced_searches({"index": None}, {"root/1": "Who?", "root/2": "Where?"}, **ABOUT):
            raise ValueError("gone")
    assert tracer.heard[2:] == [("error", "gone")] * 2


@pytest.mark.parametrize(
    ("error", "kind"), [(Refusal(503, "down", ""), "503"), (EndpointError("down"), "EndpointError")]
)
async def test_a_failed_try_is_named_by_its_status_or_its_type(tracer, error, kind):
    await tracers.traced_failure(error)
    assert tracer.heard == [("failed try", {"error.type": kind}, tracer.manager.parent_run_id)]


async def test_without_a_run_or_a_tracer_a_failed_try_is_not_reported(tracer, monkeypatch):
    tracer.manager.parent_run_id = None
    await tracers.traced_failure(ValueError("x"))
    for config in ({}, {"callbacks": None}, {"callbacks": AsyncCallbackManager([], parent_run_id=uuid4())}):
        monkeypatch.setattr(tracers, "get_config", lambda config=config: config)
        await tracers.traced_failure(ValueError("x"))
        async with tracers.traced_searches({"index": None}, {"root": "Who?"}, **ABOUT) as found:
            assert found == []
    assert tracer.heard == []
