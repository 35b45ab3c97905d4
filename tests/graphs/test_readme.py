"""The drawings in graphs/README.md are those of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopgraph.drawing import mermaid
from hopgraph.methods import METHODS, READERS, load

CARDS = (Path(__file__).parents[2] / "graphs" / "README.md").read_text()


@pytest.mark.parametrize("method", [*METHODS, *READERS])
def test_the_drawing_of_every_method_is_true(method):
    assert f"```mermaid\n{mermaid(load(method).get_graph(xray=True))}\n```" in CARDS


@pytest.mark.parametrize("method", [*METHODS, *READERS])
def test_every_node_of_a_method_is_on_its_card(method):
    for name in load(method).get_graph(xray=True).nodes:
        assert name.startswith("__") or f"`{name.rpartition(':')[2]}`" in CARDS
