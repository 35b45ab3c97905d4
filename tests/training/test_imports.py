"""No module of `training/` imports one that imports it, not even within a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_no_import_goes_round_in_a_circle():
    paths = [path for path in (ROOT / "training").rglob("*.py") if path.stem != "__init__"]
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in paths}
    graph = {name: modules.keys() & set(imported(path)) for name, path in modules.items()}
    assert len(list(TopologicalSorter(graph).static_order())) == len(modules)  # a circle raises CycleError
