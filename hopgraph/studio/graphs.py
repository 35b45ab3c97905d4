"""Graphs for `hopgraph studio`, with thread locking and validation of settings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph_sdk.runtime import ServerRuntime

from hopgraph.methods import METHODS, READERS, context_class, load, make_context
from hopgraph.studio.names import names
from hopgraph.studio.saved import save_runs
from inference.settings import get_settings
from stores.checkpoints import checkpoint_place, only_here

_SERVERS_OWN = frozenset({"thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map", "run_id", "cron_id"})
"""Keys of LangGraph's `configurable` that are not settings."""
Graph = Callable[[RunnableConfig, ServerRuntime[Any]], AbstractAsyncContextManager[CompiledStateGraph[Any, Any, Any]]]


def _served(name: str) -> Graph:
    """The factory that the server calls for each use of a graph; for a run, its context lasts until the run ends."""
    context_class(name)  # imports it before the server's loop runs

    @asynccontextmanager
    async def graph(
        config: RunnableConfig, runtime: ServerRuntime[Any]
    ) -> AsyncIterator[CompiledStateGraph[Any, Any, Any]]:
        run = runtime.execution_runtime
        if run is None:
            yield load(name)
            return
        _check(name, run.context)
        thread = config.get("configurable", {}).get("thread_id")
        if thread is None:
            yield load(name)
            return
        async with only_here(checkpoint_place(), names().stored(str(thread))):
            await save_runs()
            yield _traced(name)

    return graph


def _traced(name: str) -> CompiledStateGraph[Any, Any, Any]:
    """A graph that exports its runs as spans, if enabled."""
    if get_settings().otel == "off":
        return load(name)
    from hopgraph.telemetry import Spans

    return load(name).with_config(callbacks=[Spans()])


def _check(name: str, context: object) -> None:
    """Validate settings before a run: the server silently drops unknown ones.

    Raises:
        InputError: A setting is invalid; the message names it.
    """
    if isinstance(context, Mapping):
        own = {
            key: value
            for key, value in context.items()
            if key not in _SERVERS_OWN and not key.startswith(("__", "langgraph_"))
        }
        make_context(name, own)


globals().update({name: _served(name) for name in (*METHODS, *READERS)})
