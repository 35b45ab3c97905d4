"""ProbTree's tree: what is made of a decomposition, and what can be answered when."""

from __future__ import annotations

import pytest

from nodes.probtree.decomposer import Decomposition, mean
from nodes.probtree.tree import NO_ANSWER, Split, aggregated_score, build, evidence_of, likeliest, ready

QUESTION = "Who is older?"


def made(*splits, max_depth=3, max_nodes=15):
    rows = [Split(question, subs, -float(n)) for n, (question, subs) in enumerate(splits, start=1)]
    return build(QUESTION, rows, max_depth=max_depth, max_nodes=max_nodes)


def words(tree):
    return {node["id"]: node["words"] for node in tree.nodes}


def test_every_split_goes_below_its_question_with_its_score():
    tree = made((QUESTION, ["A?", "B?"]), ("b", ["C?", "D of #1?"]))
    assert words(tree) == {
        "root": QUESTION, "root/1": "A?", "root/2": "B?", "root/2/1": "C?", "root/2/2": "D of #1?",
    }  # fmt: skip
    assert [node["decomposition"] for node in tree.nodes] == [-1.0, 0.0, -2.0, 0.0, 0.0]
    assert tree.problems == []


def test_the_first_split_is_the_question_s_whatever_text_it_gives():
    assert words(made(("Another wording", ["A?"]))) == {"root": QUESTION, "root/1": "A?"}


@pytest.mark.parametrize("splits", [[], [(QUESTION, [])], [(QUESTION, [QUESTION.upper()])], [(QUESTION, ["", " "])]])
def test_without_sub_questions_the_root_is_a_leaf(splits):
    tree = made(*splits)
    assert words(tree) == {"root": QUESTION}
    assert tree.nodes[0]["decomposition"] == 0.0


def test_a_split_is_used_once_and_a_circle_is_cut():
    tree = made((QUESTION, ["A?"]), ("A?", ["B?"]), ("B?", ["A?", QUESTION]), max_depth=6)
    assert list(words(tree)) == ["root", "root/1", "root/1/1", "root/1/1/1"]


def test_splits_of_questions_that_are_not_there_are_said():
    assert made((QUESTION, ["A?"]), ("Z?", ["Y?"])).problems == ["not in the tree: Z?"]


@pytest.mark.parametrize("text", ["Who knows #1?", "Who knows #2?", "Who knows #0?", "Who knows #9?"])
def test_a_reference_to_no_earlier_sibling_leaves_the_sub_question_out(text):
    tree = made((QUESTION, [text, "B?", "C of #2?"]))
    assert list(words(tree)) == ["root", "root/2", "root/3"], "the others keep their numbers"
    assert tree.problems == [f"left out, for it refers to no earlier sub-question: {text}"]


def test_depth_and_number_are_bounded():
    splits = [(QUESTION, ["A?", "B?"]), ("A?", ["C?", "D?"]), ("C?", ["E?"])]
    assert len(made(*splits, max_depth=1).nodes) == 1
    assert len(made(*splits, max_depth=2).nodes) == 3
    assert len(made(*splits, max_depth=3).nodes) == 5
    assert len(made(*splits, max_depth=4).nodes) == 6
    assert len(made(*splits, max_depth=4, max_nodes=4).nodes) == 3
    assert "not split any further: A?" in made(*splits, max_depth=2).problems


def answered(tree, **answers):
    for node in tree:
        if node["id"].replace("/", "_") in answers:
            node["answer"], node["score"] = answers[node["id"].replace("/", "_")], -0.5
            node["question"] = node["words"]
    return tree


def test_a_question_waits_for_its_sub_questions_and_for_those_that_it_refers_to():
    tree = made((QUESTION, ["A?", "B of #1?", "C?"])).nodes
    assert [node["id"] for node in ready(tree)] == ["root/1", "root/3"]
    answered(tree, root_1="Ann", root_3="")
    [second] = ready(tree)
    assert (second["id"], second["question"], second["entities"]) == ("root/2", "B of Ann?", ["Ann"])
    answered(tree, root_2="Bob")
    assert [node["id"] for node in ready(tree)] == ["root"]


def test_for_an_unknown_answer_its_question_is_put_in():
    tree = answered(made((QUESTION, ["Who made A?", "Where was #1 born?"])).nodes, root_1="")
    [second] = ready(tree)
    assert second["question"] == 'Where was the answer to "Who made A" born?'
    assert second["entities"] == []


def test_a_number_sign_in_the_user_s_question_is_text():
    [root] = build("Who sang the #1 hit?", [], max_depth=3, max_nodes=15).nodes
    assert [node["question"] for node in ready([root])] == ["Who sang the #1 hit?"]


@pytest.mark.parametrize("blank", ["", " ", QUESTION])
def test_references_are_right_where_a_sub_question_before_them_is_left_out(blank):
    tree = made((QUESTION, [blank, "Who directed A?", "Who wrote B?", "Where was #2 born?"])).nodes
    assert [node["id"] for node in tree] == ["root", "root/2", "root/3", "root/4"]
    answered(tree, root_2="Ann", root_3="Bob")
    assert [node["question"] for node in ready(tree) if node["id"] == "root/4"] == ["Where was Ann born?"]


def test_what_refers_to_a_sub_question_that_is_left_out_is_left_out_too():
    tree = made((QUESTION, ["Where was #2 born?", "Who directed A?", "When did #1 die?"]))
    assert words(tree) == {"root": QUESTION, "root/2": "Who directed A?"}
    assert [problem.rpartition(": ")[2] for problem in tree.problems] == ["Where was #2 born?", "When did #1 die?"]


def test_a_number_sign_of_the_user_s_question_is_text_in_sub_questions_too():
    question = "Who wrote the #1 hit?"
    tree = build(
        question, [Split(question, ["Who sang it?", "Which was the #1 hit?"], -1.0)], max_depth=3, max_nodes=15
    )
    assert tree.problems == []
    assert [node["question"] for node in ready(tree.nodes)] == ["Who sang it?", "Which was the #1 hit?"]


def test_the_aggregated_score_is_the_mean_of_all_parts():
    tree = answered(made((QUESTION, ["A?", "B?"])).nodes, root_1="x", root_2="y")
    assert aggregated_score(-0.2, tree[0], tree[1:]) == pytest.approx((-0.2 - 1.0 - 0.5 - 0.5) / 4)


def candidate(way, answer, score):
    return {"id": way, "node": "root", "way": way, "answer": answer, "score": score, "passages": [], "problem": ""}


def test_of_equally_likely_answers_the_first_counts():
    first, second = candidate("closed_book", "a", -0.5), candidate("open_book", "b", -0.5)
    assert likeliest([first, second]) is first
    assert likeliest([second, first]) is second
    assert likeliest([first, candidate("open_book", "b", -0.49)])["answer"] == "b"
    assert likeliest([candidate("open_book", "", NO_ANSWER)]) is None


def test_a_sub_answer_that_is_certain_has_its_part_in_the_mean():
    tree = answered(made((QUESTION, ["A?", "B?"])).nodes, root_1="x", root_2="y")
    tree[1]["score"] = 0.0
    assert aggregated_score(-0.4, tree[0], tree[1:]) == pytest.approx((-0.4 - 1.0 + 0.0 - 0.5) / 4)


def test_a_question_without_tokens_counts_as_one_without_an_answer():
    assert mean([-0.25, -0.75]) == -0.5
    assert mean([]) == NO_ANSWER == -100.0


def test_the_evidence_is_what_the_root_s_answer_rests_on_from_above():
    tree = made((QUESTION, ["A?", "B?", "C?"]), ("B?", ["D?", "E?"])).nodes
    ways = {"root": "child_aggregating", "root/1": "open_book", "root/2": "child_aggregating", "root/3": "closed_book",
            "root/2/1": "open_book", "root/2/2": "closed_book"}  # fmt: skip
    for node in tree:
        node["chosen"] = ways[node["id"]]
    candidates = [{"id": f"{id}/{way}", "node": id, "way": way} for id in ways for way in ("closed_book", "open_book")]
    assert [row["id"] for row in evidence_of(tree, candidates)] == ["root/1/open_book", "root/2/1/open_book"]
    tree[0]["chosen"] = "open_book"
    assert [row["id"] for row in evidence_of(tree, candidates)] == ["root/open_book"]


@pytest.mark.parametrize(("splits", "parts", "fits"), [(15, 4, True), (16, 1, False), (1, 5, False), (0, 0, True)])
def test_a_decomposition_has_15_splits_of_4_sub_questions_at_most(splits, parts, fits):
    reply = {"tree": [{"question": "Who?", "subquestions": ["When?"] * parts}] * splits}
    if fits:
        assert len(Decomposition.model_validate(reply).tree) == splits
    else:
        with pytest.raises(ValueError, match="too_long"):
            Decomposition.model_validate(reply)
