"""Graphs as Mermaid text, the way the documentation shows them."""

from __future__ import annotations

from langchain_core.runnables.graph import Graph

__all__ = ["mermaid"]


def mermaid(graph: Graph) -> str:
    """A graph as Mermaid text: nodes by name, conditional edges dotted with their label. Sorted."""
    ends = [f'  {name}(["{name.strip("_")}"])' for name in graph.nodes if name.startswith("__")]
    edges = [f"  {edge.source} {_arrow(edge.data, edge.conditional)} {edge.target}" for edge in graph.edges]
    return "\n".join(["graph TD", *ends, *sorted(edges)])


def _arrow(label: object, conditional: bool) -> str:
    if conditional:
        return f"-. {label} .->" if label else "-.->"
    return "-->"
