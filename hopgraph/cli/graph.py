"""`hopgraph graph`: a method's state machine as text or as a picture, without a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from langchain_core.runnables.graph import Graph

__all__ = ["graph"]


def graph(
    method: Annotated[str | None, typer.Argument(help="Method id; without one they are listed.")] = None,
    png: Annotated[Path | None, typer.Option(help="Write a PNG picture to this file.")] = None,
) -> None:
    """Draw a method's state machine (Mermaid text, or a PNG), or list the methods."""
    from hopgraph.methods import METHODS, load

    if method is None:
        for name, about in METHODS.items():
            print(f"{name:16}{about}")
        return
    from hopgraph.drawing import mermaid

    drawing = load(method).get_graph()
    if png is None:
        print(mermaid(drawing))
        return
    _draw(drawing, png)
    print(png)


def _draw(drawing: Graph, png: Path) -> None:
    """Lay out with Graphviz, through pygraphviz: nothing leaves the machine."""
    from inference.errors import InputError

    try:
        import pygraphviz
    except ImportError:
        raise InputError("--png needs pygraphviz", hint="pip install 'hopgraph[draw]'") from None
    picture = pygraphviz.AGraph(directed=True, rankdir="TB", nodesep=0.5, ranksep=0.5, fontname="Helvetica")
    picture.node_attr.update(
        shape="box", style="rounded,filled", fillcolor="#eef2fb", color="#5b6b8c", fontname="Helvetica"
    )
    picture.edge_attr.update(color="#5b6b8c", fontname="Helvetica", fontsize=11, fontcolor="#39445c")
    for name in drawing.nodes:
        if name.startswith("__"):
            picture.add_node(name, label=name.strip("_"), shape="oval", fillcolor="#ffffff")
        else:
            picture.add_node(name, label=name.replace("_", " "))
    for edge in drawing.edges:
        label = f" {edge.data} " if edge.data else ""
        picture.add_edge(edge.source, edge.target, label=label, style="dashed" if edge.conditional else "solid")
    try:
        png.parent.mkdir(parents=True, exist_ok=True)
        picture.draw(str(png), format="png", prog="dot")
    except OSError as error:
        raise InputError(f"{png}: {error}") from None
