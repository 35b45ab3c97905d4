"""What a shell completes, as the shell asks for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.hopgraph.evaluation.conftest import CONTEXTS, LINES, hopgraph  # noqa: F401
from tests.reading import corpus

HEAVY = ("langgraph", "langchain_core", "chromadb", "bm25s", "spacy", "onnxruntime", "numpy")


def completed(words: str) -> list[str]:
    """What bash is offered for the last word; the process fails if it imports what is slow."""
    code = (
        "import atexit, sys\n"
        f"atexit.register(lambda: print(*(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr, end=''))\n"
        "from hopgraph.__main__ import main\n"
        "main()\n"
    )
    split = words.split(" ")
    asked = {"_HOPGRAPH_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(split) - 1)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | asked)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("hopgraph ask -m pr", {"prunerag", "prism", "probtree"}),
        ("hopgraph eval -m prism,han", {"prism,hanrag"}),
        ("hopgraph graph iter", {"iter_retgen"}),
        ("hopgraph prompts show prism/sel", {"prism/selector", "prism/selector_prune"}),
        ("hopgraph res", {"resume"}),
        ("hopgraph search x --mode d", {"dense"}),
    ],
)
def test_commands_methods_and_prompts_are_completed(home, words, offered):
    assert set(completed(words)) == offered


def test_indexes_and_threads_are_completed(hopgraph, model, tmp_path):  # noqa: F811
    assert completed("hopgraph ask -i ") == completed("hopgraph resume ") == []
    corpus(2)
    path = tmp_path / "contexts.jsonl"
    path.write_text("\n".join(map(json.dumps, CONTEXTS)))
    model(lambda request: LINES[request.node])
    assert hopgraph("ask", "Where?", "--contexts", path, "--thread", "mine")[0] == 0
    for words in ("ask -i t", "search x -i t", "read -i t", "index --name t", "rm index t"):
        assert completed(f"hopgraph {words}") == ["towns"]
    assert (
        completed("hopgraph resume ") == completed("hopgraph trace m") == completed("hopgraph rm thread m") == ["mine"]
    )
