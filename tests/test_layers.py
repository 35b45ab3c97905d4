"""The import rules of docs/development.md: layers import downwards only, and no files import each other in a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = ("inference", "prompts", "stores", "nodes", "graphs", "hopgraph", "training", "benchmarks")
"""From the lowest to the highest. The last two are not installed."""

COMMANDS = ("cli", "demo", "studio")
"""What of hopgraph is run by people; it may use the command line's parts."""


_METHODS = {path.name for path in (ROOT / "nodes").iterdir() if path.is_dir()} - {"kit", "__pycache__"} | {"one", "two"}
"""Folders of methods' nodes; `one` and `two` are those of the tests below."""


class Import(NamedTuple):
    """An import of one file of the project by another, as module names."""

    module: str
    imported: str
    line: int


def modules(root: Path) -> dict[str, Path]:
    """All modules of the layers, by name; a package by its own name."""
    paths = [path for layer in LAYERS for path in sorted((root / layer).rglob("*.py"))]
    return {".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def imports(root: Path) -> Iterator[Import]:
    """All imports between the project's files, those in functions and for type checkers included."""
    known = modules(root)
    for module, path in known.items():
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                names = [name if name in known else node.module for name in names]
            yield from (Import(module, name, node.lineno) for name in names if name in known and name != module)


def broken(found: Import) -> str:
    """Which rule an import breaks; "" if none."""
    module, imported = found.module.split("."), found.imported.split(".")
    if LAYERS.index(imported[0]) > LAYERS.index(module[0]):
        return f"{module[0]} is below {imported[0]}"
    if module[0] == imported[0] == "nodes":
        return _broken_in_nodes(module, imported)
    if module[:2] == ["hopgraph", "evaluation"] and imported[:2] in (
        ["hopgraph", "simulation"],
        ["hopgraph", "views"],
        ["hopgraph", "cli"],
    ):
        return f"evaluation does not depend on {imported[1]}"
    if (
        module[:2] == ["hopgraph", "evaluation"]
        and imported[0] == "nodes"
        and imported[1:2]
        and imported[1] in _METHODS
    ):
        return "evaluation knows no single method"
    if imported[:2] == ["hopgraph", "cli"] and module[1] not in COMMANDS and module[-1] != "__main__":
        return "the command line is on top of hopgraph"
    return ""


def _broken_in_nodes(module: list[str], imported: list[str]) -> str:
    if module[1:2] == ["kit"] and imported[1:2] != ["kit"]:
        return "the kit depends on no node"
    if imported[1:2] and imported[1] in _METHODS and imported[1:2] != module[1:2]:
        return "a method's nodes are its own"
    return ""


def listed(root: Path) -> list[str]:
    """Every import that breaks a rule, with its place."""
    known = modules(root)
    return [
        f"{known[row.module]}:{row.line}: imports {row.imported}: {why}"
        for row in imports(root)
        if (why := broken(row))
    ]


def circle(root: Path) -> list[str]:
    """The modules of a circle of imports; empty if there is none."""
    graph: dict[str, set[str]] = {}
    for row in imports(root):
        graph.setdefault(row.module, set()).add(row.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_layers_import_downwards_only():
    assert listed(ROOT) == []


def test_no_files_import_each_other_in_a_circle():
    assert circle(ROOT) == []


def test_nothing_installed_imports_the_tests():
    for layer in LAYERS[:6]:
        for path in (ROOT / layer).rglob("*.py"):
            assert "from tests" not in path.read_text(), path


def made(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "rule"),
    [
        ({"stores/a.py": "from nodes.b import x", "nodes/b.py": ""}, "stores/a.py:1: imports nodes.b: stores is below"),
        ({"nodes/kit/a.py": "import nodes.b", "nodes/b.py": ""}, "imports nodes.b: the kit depends on no node"),
        ({"nodes/a.py": "\nfrom nodes.one import b", "nodes/one/b.py": ""}, "a.py:2: imports nodes.one.b: a method's"),
        ({"nodes/two/a.py": "from nodes.one.b import x", "nodes/one/b.py": ""}, "a method's nodes are its own"),
        ({"hopgraph/a.py": "def f():\n    import training.b", "training/b.py": ""}, "a.py:2: imports training.b"),
        (
            {"hopgraph/evaluation/a.py": "import hopgraph.views.b", "hopgraph/views/b.py": ""},
            "does not depend on views",
        ),
        (
            {"hopgraph/evaluation/a.py": "from nodes.one.b import x", "nodes/one/b.py": ""},
            "evaluation knows no single method",
        ),
        ({"hopgraph/a.py": "from hopgraph.cli import b", "hopgraph/cli/b.py": ""}, "the command line is on top"),
    ],
)
def test_each_rule_is_noticed(tmp_path, files, rule):
    [line] = listed(made(tmp_path, files))
    assert rule in line


def test_a_circle_is_noticed_even_where_one_import_is_for_type_checkers_alone(tmp_path):
    late = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from stores.a import X"
    made(tmp_path, {"stores/a.py": "from stores.b import Y", "stores/b.py": late})
    assert set(circle(tmp_path)) == {"stores.a", "stores.b"}
