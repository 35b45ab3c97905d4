"""Results as people see them in a terminal."""

from __future__ import annotations

import io

from rich.console import Console

from hopgraph import load
from hopgraph.results import result_of
from hopgraph.views.terminal import print_result, render_result
from nodes.kit.steps import step
from tests.graphs.test_prunerag import CONTEXTS, LEFT, QUESTION, RIGHT, answer, play, split


async def shown(**context):
    state = await load("prunerag").ainvoke({"question": QUESTION, "contexts": CONTEXTS}, context=context)
    result = result_of(state, id="q", method="prunerag", question=QUESTION, thread="t")
    out = io.StringIO()
    Console(file=out, width=200).print(render_result(result, {}))
    return result, out.getvalue().splitlines()


async def test_prunerag_is_shown_as_a_tree_with_confidences_and_pruned_branches_marked(model):
    model(
        play(
            decomposer={
                QUESTION: answer("Bob", -2.0),
                (QUESTION, "barred"): split(LEFT, RIGHT),
                LEFT: answer("1950", -0.001),
            },
            aggregator={"thought": "t", "answer": "Ann Lee"},
        )
    )
    result, lines = await shown(max_searches=2)
    assert "decomposer  " + QUESTION + "  0.135  rejected: confidence 0.135 is below 0.95" in lines[2]
    accepted = next(line for line in lines if LEFT in line and "accepted" in line)
    assert "0.999" in accepted
    assert accepted.index("decomposer") > lines[2].index("decomposer")  # below its parent
    cut = next(line for line in lines if "✂" in line)
    assert RIGHT in cut
    assert "pruned: the search budget is spent" in cut
    assert [(node["id"], node["verdict"], bool(node["pruned"])) for node in result["tree"]] == [
        ("root", "split", False),
        ("root/0", "accepted", False),
        ("root/1", "evidence", True),
    ]
    assert all(isinstance(key, str) for node in result["tree"] for key in node["documents"])


def heading(status, sentences):
    made = [step("root/merger", "aggregate", node="merger", sentences=sentences)]
    state = {"status": status, "answer": "Paris", "evidence": [{"id": "a"}, {"id": "b"}], "trajectory": made}
    out = io.StringIO()
    result = result_of(state, id="q", method="prism", question="?", thread="t")
    Console(file=out, width=200).print(render_result(result, {}))
    return next(line.strip() for line in out.getvalue().splitlines() if line.startswith("evidence"))


def test_evidence_is_said_to_be_what_it_is():
    assert heading("answered", []) == "evidence: 2 passages kept by the method"
    assert heading("answered", [("a", 0), ("b", 1), ("b", 2)]) == (
        "evidence: 3 sentences selected by the method, of 2 passages"
    )


def lines_of(trajectory, **state):
    state = {"status": "unanswerable", "answer": "", "evidence": [], "trajectory": trajectory, **state}
    out = io.StringIO()
    result = result_of(state, id="q", method="no_retrieval", question="?", thread="t")
    Console(file=out, width=200).print(render_result(result, {}))
    return [line.strip() for line in out.getvalue().splitlines()]


def test_a_step_without_an_answer_says_so_and_leaves_no_empty_line():
    revised = step("root/1", "answer", node="reviser", searches=1)
    lines = lines_of([step("root/generator", "answer", node="generator"), revised])
    assert "├── generator  no answer" in lines
    assert "└── reviser  no answer" in lines
    assert not any(line.endswith(("├──", "└──")) for line in lines)


def test_a_search_without_a_hit_says_so():
    assert "nothing found" in lines_of([step("root/1", "retrieve", node="retriever", searches=1)])[3]


def test_the_evidence_is_blamed_only_where_something_was_found():
    assert "answer: the model gave no answer" in lines_of([])
    found = lines_of([], evidence=[{"id": "a"}])
    assert "answer: the evidence does not answer the question" in found


async def test_off_a_terminal_lines_are_not_wrapped(model, capsys):
    long = "Which " + "very " * 60 + "old town is it?"
    model(play(decomposer={long: answer("Bob", -0.001)}, aggregator={"thought": "t", "answer": "Bob"}))
    state = await load("prunerag").ainvoke({"question": long, "contexts": CONTEXTS})
    print_result(result_of(state, id="q", method="prunerag", question=long, thread="t"), None)
    lines = capsys.readouterr().out.splitlines()
    assert any(long in line for line in lines)
    assert max(map(len, lines)) < 1_000
