"""Hopgraph answers multi-hop questions over your own documents with published methods, each a LangGraph state machine.

Example:
    >>> from hopgraph import METHODS, load
    >>> graph = load("prism")
    >>> state = await graph.ainvoke({"question": "Where was the director of X born?"}, context={"index": "mine"})
    >>> state["answer"], state["evidence"]
"""

from __future__ import annotations

from hopgraph.installation import check_rooms

check_rooms()

from hopgraph.methods import METHODS, load  # noqa: E402  (what is wrong with the rooms must be said first)

__all__ = ["METHODS", "__version__", "load"]

__version__ = "0.1.0"
