"""The dependency graph of sub-questions: whatever a model writes, it ends up acyclic and in order."""

from __future__ import annotations

import random

import pytest

from nodes.compactrag.dag import build_dag, fill_references, in_wave, literal, references

QUESTION = "Where was the director of Alpha born?"


def dag(*rows, question=QUESTION, most=8):
    return build_dag(rows, question, most)


def shape(plan):
    return [(literal(item["question"]), item["depends_on"], item["wave"]) for item in plan]


def test_independent_sub_questions_share_a_wave_and_dependent_ones_follow():
    plan, problems = dag(
        ("Who directed Alpha?", []), ("Who wrote Beta?", []), ("When was #1 born?", []), ("Did #3 know #2?", [2])
    )
    assert [item["wave"] for item in plan] == [1, 1, 2, 3]
    assert [item["depends_on"] for item in plan] == [[], [], [1], [2, 3]]
    assert problems == []
    assert [item["number"] for item in in_wave(plan, 1)] == [1, 2]


def test_a_later_sub_question_may_be_depended_on_as_long_as_there_is_no_cycle():
    plan, problems = dag(("Where was #2 born?", []), ("Who directed Alpha?", []))
    assert shape(plan) == [("Where was #2 born?", [2], 2), ("Who directed Alpha?", [], 1)]
    assert problems == []


@pytest.mark.parametrize("bad", [9, -1, 2])
def test_a_reference_to_nothing_or_to_itself_means_the_one_before(bad):
    plan, problems = dag(("Who directed Alpha?", []), ("Where was this person born?", [bad]))
    assert plan[1]["depends_on"] == [1]
    assert problems == [f"sub-question 2 can't depend on {bad}: taken to mean 1"]


def test_a_bad_reference_in_the_text_is_put_right_too():
    plan, _ = dag(("Who directed Alpha?", []), ("Where was #7 born?", []))
    assert shape(plan)[1] == ("Where was #1 born?", [1], 2)


def test_where_references_make_sense_counted_from_0_all_are():
    plan, problems = dag(("Who directed Alpha?", []), ("Who taught this person?", [0]), ("Where was #1 born?", [1]))
    assert shape(plan)[1:] == [("Who taught this person?", [1], 2), ("Where was #2 born?", [2], 3)]
    assert problems == ["sub-questions were counted from 0"]
    plan, _ = dag(("Who directed Alpha?", []), ("Who wrote Beta?", []), ("Did #0 know #1?", []))
    assert shape(plan)[2] == ("Did #1 know #2?", [1, 2], 2)


@pytest.mark.parametrize("none", [[0], []])
def test_a_0_among_references_that_count_from_1_is_a_bad_one_alone(none):
    plan, problems = dag(("Who directed Alpha?", none), ("Who?", [0]), ("When was #1 born?", [1]), ("And #3?", [3]))
    assert [item["depends_on"] for item in plan] == [[], [1], [1], [3]]
    assert "sub-question 2 can't depend on 0: taken to mean 1" in problems


def test_the_first_has_none_before_it():
    plan, problems = dag(("Where was #4 born?", [4]), ("Who?", []))
    assert shape(plan)[0] == ("Where was something born?", [], 1)
    assert problems == ["sub-question 1 can't depend on 4: dropped"]


def test_a_cycle_is_cut_at_its_earliest_sub_question():
    plan, problems = dag(("Who knew #3?", []), ("Who knew #1?", []), ("Who knew #2?", []), ("Who knew #3?", []))
    assert shape(plan) == [
        ("Who knew someone?", [], 1), ("Who knew #1?", [1], 2), ("Who knew #2?", [2], 3), ("Who knew #3?", [3], 4),
    ]  # fmt: skip
    assert problems == ["a cycle was cut: sub-question 1 does without 3"]


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ("Who knew #1?", "Who met someone?"),
        ("Where is #1?", "Who met some place?"),
        ("When was #1?", "Who met some time?"),
    ],
)
def test_a_cut_leaves_a_question_that_can_be_read(other, text):
    plan, _ = dag(("Who met #2?", [2]), (other, [1]))
    assert shape(plan)[0] == (text, [], 1)
    plan, problems = dag(("Who met #1?", [1]))
    assert shape(plan) == [("Who met someone?", [], 1)]
    assert problems == ["sub-question 1 can't depend on 1: dropped"]


def test_cutting_a_cycle_keeps_the_dependencies_outside_it():
    plan, _ = dag(("Who?", []), ("What of #1 and #3?", []), ("What of #2?", []))
    assert shape(plan)[1] == ("What of #1 and something?", [1], 2)


def test_what_only_leads_to_a_cycle_is_not_cut():
    plan, problems = dag(("When was #3 born?", []), ("Who knew #3?", []), ("Who taught #2?", []))
    assert shape(plan) == [("When was #3 born?", [3], 3), ("Who knew someone?", [], 1), ("Who taught #2?", [2], 2)]
    assert problems == ["a cycle was cut: sub-question 2 does without 3"]


def test_a_sub_question_of_a_cycle_keeps_what_another_cycle_gives_it():
    plan, _ = dag(("#2 or #3?", []), ("Of #1?", []), ("Of #4?", []), ("Of #3?", []))
    assert [item["depends_on"] for item in plan] == [[3], [1], [], [3]]


def test_blank_sub_questions_go_and_the_others_are_numbered_anew():
    plan, _ = dag(("Who directed Alpha?", []), ("  ", []), ("Where was #1 born?", [1]), ("How old is #3's town?", [3]))
    assert [item["number"] for item in plan] == [1, 2, 3]
    assert shape(plan)[2] == ("How old is #2's town?", [2], 3)


def test_too_many_are_cut_and_it_is_said():
    plan, problems = dag(*[(f"Who is number {n}?", []) for n in range(5)], most=3)
    assert len(plan) == 3
    assert problems == ["2 more sub-questions were left out"]


def test_a_number_sign_of_the_user_s_question_is_no_reference():
    plan, problems = dag(("Who wore #23 for Chicago?", []), ("Where was #1 born?", []), question="Where was #23 born?")
    assert shape(plan) == [("Who wore #23 for Chicago?", [], 1), ("Where was #1 born?", [1], 2)]
    assert problems == []


def test_nor_is_it_one_where_its_number_is_that_of_a_sub_question_that_is_needed():
    hit = "Where was the director of the #1 hit Alpha born?"
    rows = ("Who?", []), ("Who?", []), ("Did #2 know the one of the #1 hit?", [1])
    plan, _ = dag(*rows, question=hit)
    assert (plan[2]["depends_on"], references(plan[2])) == ([1, 2], {2})
    assert fill_references(plan[2], {1: "Ann", 2: "Bob"}) == "Did Bob know the one of the #1 hit?"
    plan, _ = dag(("Who?", []), ("Did #0 sing the #1 hit?", [0]), question=hit)  # counted from 0
    assert fill_references(plan[1], {1: "Ann"}) == "Did Ann sing the #1 hit?"


def test_a_reference_that_a_person_writes_into_a_sub_question_is_one():
    plan, _ = dag(("Who?", []), ("Where was she born?", [1]))
    assert fill_references({**plan[1], "question": "Where was #1 born?"}, {1: "Ann"}) == "Where was Ann born?"


def test_a_cut_takes_only_references_out_of_the_text():
    plan, _ = dag(("Who of the #2 hit knew #3?", [2]), ("#1?", []), ("Of #1?", []), question="The #2 hit?")
    assert shape(plan)[0] == ("Who of the #2 hit knew something?", [], 1)


def test_nothing_in_nothing_out():
    assert dag() == ([], [])
    assert dag(("", [1]))[0] == []


@pytest.mark.parametrize("seed", range(200))
def test_any_graph_comes_out_acyclic_with_dependencies_in_earlier_waves(seed):
    chance = random.Random(seed)
    size = chance.randint(1, 8)
    rows = [
        (
            f"Sub-question {n}" + "".join(f" #{chance.randint(0, 10)}" for _ in range(chance.randint(0, 2))),
            [chance.randint(-1, 10) for _ in range(chance.randint(0, 3))],
        )
        for n in range(size)
    ]
    plan, _ = dag(*rows)
    waves = {item["number"]: item["wave"] for item in plan}
    assert sorted(waves) == list(range(1, size + 1))
    assert set(waves.values()) == set(range(1, max(waves.values()) + 1))
    for item in plan:
        assert all(waves[ref] < item["wave"] for ref in item["depends_on"])
        assert references(item) <= set(item["depends_on"])


def test_answers_take_the_places_of_their_references():
    plan, _ = dag(("Who?", []), ("What?", []), ("Did #2 know #1, and #1 #2?", []))
    assert fill_references(plan[2], {1: "Ann", 2: "Bob"}) == "Did Bob know Ann, and Ann Bob?"
    assert fill_references(plan[2], {1: "", 2: r"\1"}) == r"Did \1 know unknown, and unknown \1?"
    assert references(plan[2]) == {1, 2}
