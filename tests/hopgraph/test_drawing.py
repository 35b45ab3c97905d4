"""Drawings of the graphs, as the base install has them: without pygraphviz."""

from __future__ import annotations

import re
import sys
from html import unescape

import pytest

from hopgraph import drawing
from hopgraph.cli import run_app
from hopgraph.methods import METHODS, READERS, load
from inference.errors import InputError

TEXT = r"<text[^>]*>([^<]*)</text>"


@pytest.fixture(autouse=True)
def _no_pygraphviz(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygraphviz", None)


@pytest.mark.parametrize("method", [*METHODS, *READERS])
def test_every_graph_has_a_drawing_of_its_present_state(method):
    picture = drawing.svg(method)
    graph = load(method).get_graph(xray=True)
    drawn = {unescape(title) for title in re.findall(r'class="node">\n<title>([^<]*)</title>', picture)}
    assert drawn == set(graph.nodes)
    assert picture.count('class="edge"') == len(graph.edges)
    assert picture.startswith("<svg")


def test_nodes_that_ran_are_filled_with_how_often():
    plain, picture = drawing.svg("hanrag"), drawing.svg("hanrag", {"anrag:generator": 12, "router": 1})
    assert picture.count('fill="#5b6b8c" stroke="#5b6b8c" d=') == 2
    assert plain.count('fill="#5b6b8c" stroke="#5b6b8c" d=') == 0
    assert sorted(set(re.findall(TEXT, picture)) - set(re.findall(TEXT, plain))) == ["generator ×12"]
    inner = picture.partition("<title>anrag:generator</title>")[2]
    assert re.findall(TEXT, inner)[0] == "generator ×12"


def test_a_drawing_of_an_earlier_graph_is_not_shown(monkeypatch):
    monkeypatch.setattr(drawing, "mermaid", lambda graph: "another graph")
    with pytest.raises(InputError, match="prism: no current drawing"):
        drawing.svg("prism")


def test_the_command_writes_an_svg_and_says_what_a_png_needs(tmp_path, capsys):
    path = tmp_path / "new folder" / "prism.svg"
    assert run_app(["graph", "prism", "--svg", str(path)]) == 0
    assert path.read_text("utf-8").startswith("<svg")
    assert run_app(["graph", "prism", "--png", str(tmp_path / "prism.png")]) == 2
    assert "pip install 'hopgraph[draw]'" in capsys.readouterr().err
