"""PruneRAG's tree: where a node stands, what repeats another, and what can be worked out when."""

from __future__ import annotations

import pytest

from nodes.prunerag.backtracer import conclude, next_to_resolve
from nodes.prunerag.context import PruneContext
from nodes.prunerag.tree import ancestors, answered, children, distinct, new_node, normalised, passed_up, send, twin

ROOT = new_node(None, 0, "Who is older?")
LEFT, RIGHT = new_node(ROOT, 0, "Left?"), new_node(ROOT, 1, "Right?")
LEAF = new_node(LEFT, 1, "Leaf?")


def ref(key):
    return {"id": key, "title": key, "score": 1.0}


def test_a_node_is_a_level_below_its_parent_and_the_root_on_level_1():
    assert [node["depth"] for node in (ROOT, LEFT, LEAF)] == [1, 2, 3]
    assert [node["id"] for node in (ROOT, LEFT, RIGHT, LEAF)] == ["root", "root/0", "root/1", "root/0/1"]
    assert (ROOT["parent"], LEAF["parent"]) == ("", "root/0")
    assert (LEAF["kind"], LEAF["searches"], LEAF["verdict"], LEAF["result"]) == ("query", 0, "open", None)


def test_a_node_s_relatives():
    tree = [ROOT, LEFT, RIGHT, LEAF]
    assert children(tree, ROOT) == [LEFT, RIGHT]
    assert children(tree, LEAF) == []
    assert ancestors(tree, LEAF) == [LEFT, ROOT]
    assert ancestors(tree, ROOT) == []


@pytest.mark.parametrize("text", ["who IS  older", "Who is older?!", " Who is older ?", "Who is older."])
def test_case_space_and_the_punctuation_at_the_end_make_no_other_query(text):
    assert normalised(text) == "who is older"
    assert distinct([text, "Who is older?", "", "Bob"]) == [" ".join(text.split()), "Bob"]


def test_a_twin_is_an_ancestor_or_an_earlier_sibling():
    tree = [ROOT, LEFT, RIGHT, LEAF]
    assert twin(tree, {**LEAF, "query": "who is older"}) == ROOT
    assert twin(tree, {**LEAF, "query": "left"}) == LEFT
    assert twin(tree, {**RIGHT, "query": "left"}) == LEFT
    assert twin(tree, {**LEFT, "query": "right"}) is None, "of two siblings the first is expanded"
    assert twin(tree, {**LEAF, "query": "right"}) is None, "an uncle is none"
    assert twin(tree, RIGHT) is None


def test_an_answer_is_taken_over_from_a_query_whose_answer_was_accepted():
    asked = {**LEAF, "query": "right"}
    assert answered([ROOT, LEFT, {**RIGHT, "verdict": "accepted"}, LEAF], asked)["id"] == "root/1"
    assert answered([ROOT, LEFT, {**RIGHT, "verdict": "evidence"}, LEAF], asked) is None
    assert answered([{**RIGHT, "verdict": "accepted", "kind": "entity"}], asked) is None
    assert answered([{**RIGHT, "verdict": "accepted"}], LEAF) is None


def test_results_go_up_and_where_there_is_none_what_is_below_it():
    deeper = new_node(LEAF, 0, "Deeper?")
    tree = [ROOT, LEFT, RIGHT, LEAF, deeper]
    assert passed_up(tree, ROOT) == [LEFT, LEAF, deeper, RIGHT]
    assert passed_up([ROOT, {**LEFT, "result": "L"}, RIGHT, LEAF, deeper], ROOT) == [{**LEFT, "result": "L"}, RIGHT]
    known = {**LEAF, "result": "x"}
    assert passed_up([ROOT, {**LEFT, "result": ""}, RIGHT, known, deeper], ROOT)[1:] == [known, RIGHT]


def ready(*nodes, **settings):
    return [node["id"] for node in next_to_resolve(nodes, PruneContext(**settings))]


def test_a_node_is_resolved_when_nothing_below_it_is_left():
    entity = new_node(RIGHT, 0, "Right?", kind="entity", entities=["Bob"])
    found = {**entity, "documents": [ref("a")]}
    tree = [ROOT, LEFT, RIGHT, LEAF, found]
    assert ready(*tree) == ["root/0", "root/1/0"], "a leaf without an answer sends its documents up without a call"
    assert ready(ROOT, LEFT, RIGHT, LEAF, entity) == ["root/0", "root/1"], "an entity node needs something to summarize"
    done = {**found, "result": "a summary"}
    assert ready(ROOT, {**LEFT, "result": ""}, RIGHT, LEAF, done) == ["root/1"]
    assert ready(ROOT, {**LEFT, "result": ""}, {**RIGHT, "result": "R"}, LEAF, done) == ["root"]
    assert ready({**ROOT, "result": "x"}, LEFT) == []


def test_a_root_without_children_has_to_answer_itself():
    assert ready(ROOT) == ["root"]


def test_with_a_single_call_the_root_alone_is_resolved():
    assert ready(ROOT, LEFT, RIGHT, LEAF, backtrace="single_call") == ["root"]
    assert ready({**ROOT, "result": ""}, LEFT, LEAF, backtrace="single_call") == []


@pytest.mark.parametrize(
    ("result", "error", "status"),
    [("Ann", None, "answered"), ("", None, "unanswerable"), (None, {"kind": "model_output"}, "failed")],
)
async def test_the_evidence_is_interleaved_level_by_level(result, error, status):
    tree = [
        {**LEAF, "documents": [ref("e")]},
        {**RIGHT, "documents": [ref("c"), ref("a")]},
        {**LEFT, "documents": [ref("b"), ref("d")]},
        {**ROOT, "documents": [ref("a"), ref("f")], "result": result},
    ]
    found = await conclude({"tree": tree, "error": error})
    assert (found["answer"], found["status"]) == (result or "", status)
    assert [item["id"] for item in found["evidence"]] == ["a", "b", "c", "e", "f", "d"]


def test_a_task_knows_the_parent_s_query_and_whether_answering_is_barred():
    state = {"question": "Q", "given": [], "index": None, "tree": [ROOT, LEFT, LEAF]}
    assert send("x", state, LEAF).arg["parent_query"] == "Left?"
    assert send("x", state, ROOT).arg["parent_query"] == ""
    assert send("x", state, ROOT).arg["barred"] is False
    assert send("x", state, LEAF, barred=True).arg["barred"] is True
