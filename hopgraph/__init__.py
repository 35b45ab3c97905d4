"""Hopgraph answers multi-hop questions over your own documents with published methods, each a LangGraph state machine.

Example:
    >>> from hopgraph import build_index, load
    >>> build_index("mine", ["papers/", {"title": "Ann Lee", "text": "Ann Lee was born in Paris."}])
    >>> state = load("prism", index="mine").invoke({"question": "Where was the director of X born?"})
    >>> state["answer"], state["evidence"]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hopgraph.installation import check_packages

check_packages()

if TYPE_CHECKING:
    from hopgraph.graph import MethodGraph
    from hopgraph.indexing import build_index
    from hopgraph.methods import METHODS, load
    from inference.errors import HopgraphError, InputError
    from stores.index import open_index
    from stores.passages import Passage
    from stores.retriever import HopgraphRetriever

__all__ = [
    "METHODS",
    "HopgraphError",
    "HopgraphRetriever",
    "InputError",
    "MethodGraph",
    "Passage",
    "__version__",
    "build_index",
    "load",
    "open_index",
]

__version__ = "0.1.0"

_PLACES = {
    "HopgraphError": "inference.errors",
    "HopgraphRetriever": "stores.retriever",
    "InputError": "inference.errors",
    "METHODS": "hopgraph.methods",
    "MethodGraph": "hopgraph.graph",
    "Passage": "stores.passages",
    "build_index": "hopgraph.indexing",
    "load": "hopgraph.methods",
    "open_index": "stores.index",
}


def __getattr__(name: str) -> Any:
    """What takes long to import is imported when it is used."""
    if name not in _PLACES:
        raise AttributeError(f"module 'hopgraph' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return __all__
