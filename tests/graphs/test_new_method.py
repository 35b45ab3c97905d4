"""A new method is a graph file, with its settings and prompts: the command line and the generated files follow."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hopgraph.installation import PACKAGES

ROOT = Path(__file__).parents[2]
PAGES = ("pyproject.toml", "README.md", "langgraph.json", "docs")
GRAPH = '''"""Tiny."""

from langgraph.graph import END, START, StateGraph

from graphs.about import About
from nodes.generator import generator
from nodes.intake import intake
from nodes.kit.context import Context, prompt_field
from nodes.kit.state import QuestionInput, State

ABOUT = About(name="Tiny", summary="a guess", citation="Lee, Tiny", published="2026-09", kind="method")


class TinyContext(Context):
    """Tiny."""

    method = "tiny"
    searches = False

    prompt_answer: str | None = prompt_field("tiny/answer", "generator")


builder = StateGraph(State, context_schema=TinyContext, input_schema=QuestionInput)
builder.add_node("intake", intake())
builder.add_node("generator", generator("tiny/answer", blocks=None))
builder.add_edge(START, "intake")
builder.add_edge("intake", "generator")
builder.add_edge("generator", END)
'''


@pytest.fixture
def run(tmp_path):
    """A copy of the project with one more method; runs a module there and gives its standard output."""
    for name in ("hopgraph", *PACKAGES):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in PAGES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    (tmp_path / "graphs" / "tiny.py").write_text(GRAPH)
    (tmp_path / "prompts" / "tiny").mkdir()
    shutil.copy(ROOT / "prompts" / "no_retrieval" / "answer.md", tmp_path / "prompts" / "tiny" / "answer.md")

    def run(*words):
        done = subprocess.run([sys.executable, "-m", *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_it_is_listed_and_answers(run, model, home):
    model(lambda request: {"answer": "Paris"})
    assert "tiny                Tiny: a guess" in run("hopgraph", "graph").splitlines()
    assert json.loads(run("hopgraph", "ask", "Where?", "-m", "tiny", "--json"))["answer"] == "Paris"


def test_one_command_writes_all_that_repeats_it(run, tmp_path):
    pytest.importorskip("pygraphviz")
    assert set(run("hopgraph.generated").split()) == {
        *("langgraph.json", "README.md", "graphs/README.md", "graphs/tiny.md", "docs/settings.md"),
        *("hopgraph/drawings/tiny.svg", "docs/tiny.png"),
    }
    assert run("hopgraph.generated") == ""
    assert json.loads((tmp_path / "langgraph.json").read_text())["graphs"]["tiny"]["path"] == "./graphs/tiny.py:builder"
    assert "| [`tiny`](graphs/tiny.md) | Tiny: a guess |" in (tmp_path / "README.md").read_text()
    assert "### `tiny`\n\nPrompts: `prompt_answer`." in (tmp_path / "docs" / "settings.md").read_text()
