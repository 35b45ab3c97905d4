"""Each method has a card that names its nodes and prompts."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopgraph.methods import ABOUTS, METHODS, READERS, context_class, load

FOLDER = Path(__file__).parents[2] / "graphs"


def table_of(method):
    return (FOLDER / f"{method}.md").read_text().partition("```mermaid")[2].partition("```")[2]


WITH_A_TABLE = [method for method in (*METHODS, *READERS) if "| paper | node |" in table_of(method)]


def test_every_method_with_a_paper_has_a_table():
    assert set(WITH_A_TABLE) == {method for method, about in ABOUTS.items() if about.citation}


@pytest.mark.parametrize("method", WITH_A_TABLE)
def test_every_node_of_a_method_is_on_its_card(method):
    names = {name.rpartition(":")[2] for name in load(method).get_graph(xray=True).nodes if not name.startswith("__")}
    assert [name for name in names - {"intake"} if f"`{name}`" not in table_of(method)] == []


@pytest.mark.parametrize("method", WITH_A_TABLE)
def test_every_prompt_of_a_method_is_on_its_card(method):
    assert [name for name in context_class(method).prompts().values() if f"`{name}`" not in table_of(method)] == []
