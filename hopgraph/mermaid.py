"""Graphs as Mermaid text, as the documentation shows them."""

from __future__ import annotations

from langchain_core.runnables.graph import Graph


def mermaid(graph: Graph) -> str:
    """A graph as Mermaid text: nodes by name, conditional edges dotted with their label, subgraphs in a box. Sorted."""
    ends = [f'  {name}(["{name.strip("_")}"])' for name in graph.nodes if name.startswith("__")]
    edges = [f"  {_id(edge.source)} {_arrow(edge.data, edge.conditional)} {_id(edge.target)}" for edge in graph.edges]
    inner = sorted(name.split(":", 1) for name in graph.nodes if ":" in name)
    boxes = [
        line
        for box in sorted({outer for outer, _ in inner})
        for line in (
            f"  subgraph {box}",
            *(f'    {_id(f"{outer}:{name}")}["{name}"]' for outer, name in inner if outer == box),
            "  end",
        )
    ]
    return "\n".join(["graph TD", *ends, *boxes, *sorted(edges)])


def _id(name: str) -> str:
    """A node's name as Mermaid takes it."""
    return name.replace(":", "_")


def _arrow(label: object, conditional: bool) -> str:
    if conditional:
        return f"-. {label} .->" if label else "-.->"
    return "-->"
