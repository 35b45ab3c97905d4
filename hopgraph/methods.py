"""The methods by id, as declared in their graph files; does not import LangGraph."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from graphs.about import read_abouts

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph import StateGraph

    from hopgraph.graph import MethodGraph
    from nodes.kit.context import Context

ABOUTS = read_abouts()
"""The `ABOUT` of each graph file, by id: baselines, methods, readers."""

METHODS = {name: about.line for name, about in ABOUTS.items() if about.kind != "reader"}
"""Descriptions by method id. `graphs/<id>.py` is the method."""

READERS = {name: about.line for name, about in ABOUTS.items() if about.kind == "reader"}
"""Graphs that prepare an index instead of answering; otherwise as `METHODS`."""


def check_method(method: str) -> str:
    """`method`, if it is known.

    Raises:
        InputError: It is not.
    """
    if method not in METHODS:
        from inference.errors import InputError, did_you_mean

        hint = f"{did_you_mean(method, METHODS)}methods: {', '.join(METHODS)}"
        raise InputError(f"unknown method {method!r}", hint=hint)
    return method


def load(
    method: str,
    checkpointer: BaseCheckpointSaver[str] | None = None,
    *,
    checkpoints: str | Path | None = None,
    **settings: Any,
) -> MethodGraph:
    """A method's graph, ready to run: `invoke`, `stream` and `batch`, or `ainvoke`, `astream` and `abatch`.

    Example:
        >>> graph = load("prism", index="mine", top_k=10, checkpoints="runs.sqlite")
        >>> graph.invoke({"question": "..."}, {"configurable": {"thread_id": "1"}})["answer"]

    Args:
        method: One of `METHODS` or `READERS`.
        checkpointer: Keeps every step: any LangGraph checkpointer, synchronous or asynchronous. Default: none.
        checkpoints: Instead of one: a SQLite file, made if it is missing, or a postgresql:// URL. Works with
            synchronous and asynchronous calls, and stays open until Python exits.
        settings: Settings of the method for all calls, such as `index`; a call's `context` overrides them.

    Raises:
        InputError: Unknown method or setting, or a setting is out of bounds.
        StoreError: The checkpoints can't be opened.
    """
    if settings:
        make_context(method, settings)
    graph = _compiled(method)
    update: dict[str, Any] = {"checkpointer": checkpointer, "settings": settings}
    if checkpoints is not None:
        from hopgraph.checkpoints import opened

        if checkpointer is not None:
            from inference.errors import InputError

            raise InputError("checkpointer and checkpoints: only one of them can be given")
        update["checkpointer"] = opened(checkpoints)
    return graph.copy(update)


def context_class(method: str) -> type[Context]:
    """The class of a method's run-time context.

    Raises:
        InputError: There is no such method.
    """
    schema: Any = _builder(method).context_schema
    return cast("type[Context]", schema)


def make_context(method: str, values: Mapping[str, Any]) -> Context:
    """A method's context from plain values.

    Raises:
        InputError: A field is unknown, of the wrong type or out of bounds; the message names it.
    """
    from hopgraph.contexts import checked

    return checked(context_class(method), values)


@lru_cache
def _compiled(method: str) -> MethodGraph:
    """The graph without a checkpointer. Compiling takes longer than a step of a run: it is done once."""
    from hopgraph.graph import MethodGraph

    return MethodGraph.of(method, _builder(method).compile(name=method))


def _builder(method: str) -> StateGraph[Any, Any, Any, Any]:
    name = method if method in READERS else check_method(method)
    builder: StateGraph[Any, Any, Any, Any] = import_module(f"graphs.{name}").builder
    return builder
