"""Drawings of graphs as in the documentation, made locally."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from langchain_core.runnables.graph import Graph

from hopgraph.mermaid import mermaid
from hopgraph.methods import load
from inference.errors import InputError

_FOLDER = files("hopgraph").joinpath("drawings")
_LIGHT, _DARK = "#eef2fb", "#5b6b8c"
_NODE = r'(<g id="node\d+" class="node">\n<title>{title}</title>\n)(.*?)<text([^<]*)</text>'
"""A node in a drawing: its head, its shape, and its text."""


def png(graph: Graph) -> bytes:
    """A graph as a PNG picture, laid out by Graphviz: subgraphs in boxes, nodes with the same neighbours in one row.

    Raises:
        InputError: pygraphviz is not installed.
    """
    drawn: bytes = _picture(graph).draw(format="png", prog="dot")
    return drawn


def svg(method: str, visits: Mapping[str, int] | None = None) -> str:
    """A method's graph as an SVG picture, laid out by Graphviz beforehand: needs no further package.

    Args:
        method: Id of a method or a reader.
        visits: How often each node ran: visited ones are filled, with the count.

    Raises:
        InputError: The graph has no drawing, or an outdated one.
    """
    if not is_current(method):
        raise InputError(f"{method}: no current drawing", hint="`python -m hopgraph.generated` draws it")
    picture = _drawn(method).partition("\n")[2]
    for name, times in (visits or {}).items():
        node = _NODE.format(title=re.escape(escape(name)))
        picture = re.sub(node, partial(_filled, times), picture, count=1, flags=re.DOTALL)
    return picture


def _drawn(method: str) -> str:
    try:
        return _FOLDER.joinpath(f"{method}.svg").read_text("utf-8")
    except FileNotFoundError:
        return ""


def _filled(times: int, node: re.Match[str]) -> str:
    shape = node[2].replace(f'fill="{_LIGHT}"', f'fill="{_DARK}"')
    more = f" ×{times}" if times > 1 else ""
    return f'{node[1]}{shape}<text fill="#ffffff"{node[3]}{more}</text>'


def _mark(graph: Graph) -> str:
    """First line of a drawing: a hash of its graph."""
    return f"<!-- {hashlib.sha256(mermaid(graph).encode()).hexdigest()} -->"


def is_current(method: str) -> bool:
    """Whether the drawing of a method's graph is up to date."""
    return _drawn(method).partition("\n")[0] == _mark(load(method).get_graph(xray=True))


def draw(method: str, png_path: Path | None = None) -> list[Path]:
    """Draw a graph into the package, for `svg`, and as a PNG picture if wanted.

    Returns:
        The files written.

    Raises:
        InputError: pygraphviz is not installed.
    """
    graph = load(method).get_graph(xray=True)
    text: str = _picture(graph).draw(format="svg", prog="dot").decode("utf-8")
    body = re.sub(r"<!-- .*? -->\n", "", text[text.index("<svg") :])
    path = Path(str(_FOLDER)) / f"{method}.svg"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{_mark(graph)}\n{body}", "utf-8")
    if png_path is None:
        return [path]
    png_path.write_bytes(png(graph))
    return [path, png_path]


def _picture(graph: Graph) -> Any:
    try:
        import pygraphviz
    except ImportError:
        raise InputError("a picture needs pygraphviz", hint="pip install 'hopgraph[draw]', or draw an SVG") from None
    picture = pygraphviz.AGraph(directed=True, rankdir="TB", nodesep=0.5, ranksep=0.5, fontname="Helvetica")
    picture.node_attr.update(
        shape="box",
        style="rounded,filled",
        fillcolor=_LIGHT,
        color=_DARK,
        fontname="Helvetica",
        margin="0.26,0.06",  # space for the count of visits
    )
    picture.edge_attr.update(color="#5b6b8c", fontname="Helvetica", fontsize=11, fontcolor="#39445c")
    between: dict[tuple[frozenset[str], frozenset[str]], list[str]] = defaultdict(list)
    for name in graph.nodes:
        if name.startswith("__"):
            picture.add_node(name, label=name.strip("_"), shape="oval", fillcolor="#ffffff")
        else:
            picture.add_node(name, label=name.rpartition(":")[2].replace("_", " "))
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
