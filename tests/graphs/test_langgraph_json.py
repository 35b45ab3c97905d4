"""langgraph.json, which LangGraph Studio reads, lists the methods."""

from __future__ import annotations

import json
from pathlib import Path

from hopgraph.methods import METHODS, READERS

ROOT = Path(__file__).parents[2]


def test_langgraph_json_lists_every_method_with_its_file():
    graphs = json.loads((ROOT / "langgraph.json").read_text())["graphs"]
    assert set(graphs) == {*METHODS, *READERS}
    for method, place in graphs.items():
        path, _, name = place.partition(":")
        assert (ROOT / path).is_file()
        assert (path, name) == (f"./graphs/{method}.py", "builder")
