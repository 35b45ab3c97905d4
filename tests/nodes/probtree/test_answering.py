"""ProbTree's choice between the answers to a question, and what it means for the run."""

from __future__ import annotations

import pytest

from nodes.probtree.answering import chooser
from nodes.probtree.tree import NO_ANSWER, Split, build


@pytest.fixture(autouse=True)
def _outside_of_a_graph(monkeypatch):
    monkeypatch.setattr("nodes.kit.steps.node_name", lambda: "chooser")


def candidate(node, way, answer="", score=NO_ANSWER, problem="", passages=()):
    refs = [{"id": key} for key in passages]
    key = f"{node}/{way}"
    return {"id": key, "node": node, "way": way, "answer": answer, "score": score, "passages": refs, "problem": problem}


def asked(*candidates):
    tree = build("Who?", [Split("Who?", ["When?", "Where?"], -0.5)], max_depth=3, max_nodes=15).nodes
    return {"tree": tree, "candidates": list(candidates)}


async def test_the_likeliest_answer_is_chosen_and_the_others_are_told():
    rows = [candidate("root/1", "closed_book", "1999", -0.1), candidate("root/1", "open_book", "1998", -0.3, "", "a")]
    update = await chooser(asked(*rows), None)
    assert "status" not in update, "the root is not answered yet"
    [node], [row] = update["tree"], update["trajectory"]
    assert (node["id"], node["chosen"], node["answer"], node["score"]) == ("root/1", "closed_book", "1999", -0.1)
    assert (row["verdict"], row["score"]) == ("closed_book (closed_book 0.905, open_book 0.741)", 0.9048)
    assert (row["evidence"], row["parent"]) == ([], "root/1")


async def test_a_question_that_nobody_could_answer_is_the_least_likely():
    update = await chooser(asked(candidate("root/1", "closed_book"), candidate("root/1", "open_book")), None)
    [node], [row] = update["tree"], update["trajectory"]
    assert (node["chosen"], node["answer"], node["score"]) == (None, "", NO_ANSWER)
    assert (row["verdict"], row["score"]) == ("no answer", None)


async def test_what_was_chosen_before_stays():
    state = asked(candidate("root/1", "closed_book", "1999", -0.1), candidate("root/2", "closed_book", "Oslo", -0.2))
    state["tree"][1]["score"] = -0.05
    assert [node["id"] for node in (await chooser(state, None))["tree"]] == ["root/2"]


@pytest.mark.parametrize(
    ("problems", "answer", "status"),
    [
        (("", ""), "Ann", "answered"),
        (("no JSON", ""), "Ann", "answered"),
        (("no JSON", "no JSON"), "", "failed"),
        (("no JSON", ""), "", "unanswerable"),
        (("", ""), "", "unanswerable"),
    ],
)
async def test_the_root_s_answer_is_the_run_s(problems, answer, status):
    first, second = problems
    score = -0.1 if answer else NO_ANSWER
    rows = [
        candidate("root", "closed_book", problem=first),
        candidate("root", "open_book", answer, score, second, "ab"),
    ]
    update = await chooser(asked(*rows), None)
    assert (update["answer"], update["status"]) == (answer, status)
    expected = {"kind": "model_output", "message": "no JSON", "node": "chooser"} if status == "failed" else None
    assert update["error"] == expected
    assert [ref["id"] for ref in update["evidence"]] == (["a", "b"] if answer else [])
