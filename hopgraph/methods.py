"""The methods there are, by id."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph import StateGraph
    from langgraph.graph.state import CompiledStateGraph

    from nodes.context import Context

__all__ = ["METHODS", "READERS", "check_method", "context_class", "load"]

METHODS = {
    "no_retrieval": "the model alone, without a search",
    "standard_rag": "one search, one answer",
    "self_ask": "Self-Ask: follow-up questions, each looked up and answered",
    "ircot": "IRCoT: a search after every sentence of a chain of thought",
    "iter_retgen": "Iter-RetGen: each search goes out from the answer before it",
    "react": "ReAct: thought, action (search, lookup, finish) and observation in turn",
    "adaptive_rag": "Adaptive-RAG: no search, one, or IRCoT, by how complex the question is",
    "prunerag": "PruneRAG: a decomposition tree, pruned by answer confidence",
    "hanrag": "HANRAG: a router to four paths, with noise-resistant retrieval",
    "parrag": "PAR-RAG: a plan whose every step is acted on and reviewed",
    "prism": "PRISM: precision and recall in a loop over evidence sentences",
    "compactrag": "CompactRAG: two calls a question, over question-answer pairs that were read beforehand",
}
"""Method ids and what they are. `graphs/<id>.py` is the method."""

READERS = {
    "compactrag_reader": "CompactRAG's offline stage: one passage into question-answer pairs",
}
"""Graphs that answer no question but prepare for it; otherwise as `METHODS`."""


def check_method(method: str) -> str:
    """`method`, if there is one of that id.

    Raises:
        InputError: There is none.
    """
    if method not in METHODS:
        from inference.errors import InputError, did_you_mean

        hint = f"{did_you_mean(method, METHODS)}methods: {', '.join(METHODS)}"
        raise InputError(f"method: there is no {method!r}", hint=hint)
    return method


def load(method: str, checkpointer: BaseCheckpointSaver[str] | None = None) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A method's graph, ready to invoke.

    Args:
        method: One of `METHODS` or `READERS`.
        checkpointer: Where steps are kept, such as `stores.checkpoints.open_checkpoints()`; without one, nowhere.

    Raises:
        InputError: There is no such method.
    """
    return _compiled(method).copy({"checkpointer": checkpointer})


def context_class(method: str) -> type[Context]:
    """The class of a method's run-time context.

    Raises:
        InputError: There is no such method.
    """
    schema: Any = _builder(method).context_schema
    return cast("type[Context]", schema)


@lru_cache
def _compiled(method: str) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The graph without a checkpointer. Compiling takes longer than a step of a run: it is done once."""
    return _builder(method).compile(name=method)


def _builder(method: str) -> StateGraph[Any, Any, Any, Any]:
    name = method if method in READERS else check_method(method)
    builder: StateGraph[Any, Any, Any, Any] = import_module(f"graphs.{name}").builder
    return builder
