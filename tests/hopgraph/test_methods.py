"""What lies above the graphs treats all methods alike."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import hopgraph
from hopgraph.methods import ABOUTS, context_class

FOLDER = Path(hopgraph.__file__).parent
OWN = [FOLDER / "simulation"]
"""Where each method has a file of its own."""
SOURCES = [path for path in FOLDER.rglob("*.py") if not any(path.is_relative_to(folder) for folder in OWN)]


def compared_names(tree):
    """Names of methods that something is compared with, and their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and part.value in ABOUTS:
                    yield part.value, part.lineno


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_nothing_asks_for_a_method_by_its_name(path):
    assert list(compared_names(ast.parse(path.read_text()))) == []


def test_a_comparison_with_a_name_would_be_found():
    assert list(compared_names(ast.parse('if context.method != "prism": ...'))) == [("prism", 1)]


def test_only_a_method_that_never_searches_needs_no_index():
    assert [name for name in ABOUTS if not context_class(name).searches] == ["no_retrieval"]
