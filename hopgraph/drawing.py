"""Graphs as the documentation shows them: Mermaid text, or a picture. Nothing leaves the machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from langchain_core.runnables.graph import Graph

from inference.errors import InputError

__all__ = ["mermaid", "png", "svg"]


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


def png(graph: Graph) -> bytes:
    """A graph as a PNG picture, laid out by Graphviz: subgraphs in a box, nodes between the same others side by side.

    Raises:
        InputError: pygraphviz is not installed.
    """
    drawn: bytes = _picture(graph, {}).draw(format="png", prog="dot")
    return drawn


def svg(graph: Graph, visits: Mapping[str, int]) -> str:
    """A graph as an SVG picture with the path of a run: nodes that ran are filled, with how often.

    Args:
        graph: The graph.
        visits: How often each node ran, by name.

    Raises:
        InputError: pygraphviz is not installed.
    """
    drawn: bytes = _picture(graph, visits).draw(format="svg", prog="dot")
    text = drawn.decode("utf-8")
    return text[text.index("<svg") :]


def _picture(graph: Graph, visits: Mapping[str, int]) -> Any:
    try:
        import pygraphviz
    except ImportError:
        raise InputError("a picture needs pygraphviz", hint="pip install 'hopgraph[draw]'") from None
    picture = pygraphviz.AGraph(directed=True, rankdir="TB", nodesep=0.5, ranksep=0.5, fontname="Helvetica")
    picture.node_attr.update(
        shape="box",
        style="rounded,filled",
        fillcolor="#eef2fb",
        color="#5b6b8c",
        fontname="Helvetica",
        margin="0.16,0.06",
    )
    picture.edge_attr.update(color="#5b6b8c", fontname="Helvetica", fontsize=11, fontcolor="#39445c")
    between: dict[tuple[frozenset[str], frozenset[str]], list[str]] = defaultdict(list)
    for name in graph.nodes:
        if name.startswith("__"):
            picture.add_node(name, label=name.strip("_"), shape="oval", fillcolor="#ffffff")
        else:
            times = visits.get(name, 0)
            ran: dict[str, Any] = {"fillcolor": "#5b6b8c", "fontcolor": "#ffffff"} if times else {}
            picture.add_node(
                name, label=name.rpartition(":")[2].replace("_", " ") + (f" ×{times}" if times > 1 else ""), **ran
            )
        before = frozenset(edge.source for edge in graph.edges if edge.target == name)
        after = frozenset(edge.target for edge in graph.edges if edge.source == name)
        between[before, after].append(name)
    for edge in graph.edges:
        label = f" {edge.data} " if edge.data else ""
        picture.add_edge(edge.source, edge.target, label=label, style="dashed" if edge.conditional else "solid")
    for names in between.values():
        if len(names) > 1:
            picture.add_subgraph(names, rank="same")
    for box in sorted({name.partition(":")[0] for name in graph.nodes if ":" in name}):
        inside = [name for name in graph.nodes if name.startswith(f"{box}:")]
        picture.add_subgraph(inside, name=f"cluster_{box}", label=box, color="#5b6b8c", style="rounded")
    return picture
