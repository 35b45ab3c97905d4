"""What a result says against its own answer."""

from __future__ import annotations

import asyncio
import io

import pytest
from rich.console import Console

from hopgraph.cli import run_app
from hopgraph.run import ask, make_context
from hopgraph.views.terminal import render_result
from stores.checkpoints import open_checkpoints
from tests.graphs.conftest import by_node
from tests.scripted import plausible
from tests.small import INDEX, QUESTION, build_small

ALONE = "no search was made: the answer is the model's own, and no passage supports it"
PARIS = {"answer": "Paris"}


def run(method, **settings):
    async def once():
        async with open_checkpoints() as saver:
            return await ask(QUESTION, make_context(method, settings), saver, thread="t1")

    return asyncio.run(once())


def test_an_answer_without_a_search_says_so_where_the_method_could_have_searched(model):
    build_small()
    model(by_node(generator=PARIS))
    assert run("hanrag", index=INDEX, route="straightforward")["notes"] == [ALONE]


def test_a_method_that_never_searches_has_nothing_to_note(model):
    model(by_node(generator=PARIS))
    result = run("no_retrieval")
    assert (result["status"], result["evidence"]) == ("answered", [])
    assert "notes" not in result


def test_an_answer_with_evidence_has_nothing_to_note(model):
    build_small()
    model(by_node(generator=PARIS))
    result = run("standard_rag", index=INDEX)
    assert result["evidence"]
    assert "notes" not in result


@pytest.mark.parametrize("answer", ["Paris", "Not Answerable"])
def test_an_answer_that_no_passage_was_kept_for_says_so(model, answer):
    build_small()
    nothing = {"evidence": []}
    model(
        by_node(analyzer={"subquestions": []}, selector=nothing, adder=nothing, generator={"answer": answer}),
    )
    result = run("prism", index=INDEX)
    assert (result["evidence"], bool(result["retrieved"])) == ([], True)
    assert result.get("notes", []) == (["no passage supports this answer"] if answer == "Paris" else [])


@pytest.fixture
def empty_base(model):
    """CompactRAG's answer over a knowledge base without pairs."""
    build_small(pairs={})
    model(plausible)
    return run("compactrag", index=INDEX)


def test_an_empty_knowledge_base_is_noted(empty_base):
    assert empty_base["status"] == "answered"
    assert empty_base["notes"] == [
        "nothing was found: the knowledge base has no question-answer pairs",
        "no passage supports this answer",
    ]


def test_notes_are_shown_in_the_terminal_and_on_the_page(empty_base, tmp_path):
    out = io.StringIO()
    Console(file=out, width=200).print(render_result(empty_base, {}))
    assert "note: nothing was found: the knowledge base has no question-answer pairs" in out.getvalue()
    path = tmp_path / "page.html"
    assert run_app(["trace", "t1", "--out", str(path)]) == 0
    assert "nothing was found: the knowledge base has no question-answer pairs" in path.read_text("utf-8")
