"""Nodes outside of a graph: what LangGraph tells a running node, and what a node tells listeners."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nodes.kit import deadlines, model, place, request, streaming, tracers
from nodes.prism.context import PrismContext


@pytest.fixture
def config(monkeypatch):
    """The configuration of a node `adder` in a run that is not checkpointed."""
    found = {"metadata": {"langgraph_node": "adder", "langgraph_step": 3, "langgraph_path": ("__pregel_pull", "adder")}}
    for module in (deadlines, place, streaming, tracers):
        monkeypatch.setattr(module, "get_config", lambda: found)
    monkeypatch.setattr(model, "send", request._send)  # no task, since no graph keeps its result
    return found


@pytest.fixture
def node(config):
    """Makes runtimes; the events of all of them are in `heard`."""
    heard = []

    def runtime(context=None, **settings):
        context = context or PrismContext(**settings)
        return SimpleNamespace(context=context, stream_writer=heard.append, control=None, execution_info=None)

    runtime.heard = heard
    return runtime
