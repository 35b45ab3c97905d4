from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from inference.errors import InputError
from tests.training.conftest import write
from tests.training.revelator.conftest import BOOKS, BORN
from training.revelator.examples import SKILLS, Example, Turn, chosen, is_held_out
from training.revelator.sources import all_examples


@pytest.fixture
def examples(data: Path) -> list[Example]:
    train, held, _ = all_examples(data)
    return train + held


def of(examples: list[Example], skill: str, question: str) -> list[Example]:
    return [example for example in examples if example.skill == skill and example.question == question]


def test_every_skill_has_examples(examples):
    assert {example.skill for example in examples} == set(SKILLS)


def test_the_split_is_by_the_question_and_no_held_out_question_is_trained_on(data):
    train, held, _ = all_examples(data)
    assert held
    assert not any(is_held_out(example.root) for example in train)
    assert all(is_held_out(example.root) for example in held)
    for skill in SKILLS:
        asked = [{example.question.lower() for example in rows if example.skill == skill} for rows in (train, held)]
        assert not asked[0] & asked[1]


def test_dev_questions_and_their_sub_questions_are_left_out(data):
    train, held, left_out = all_examples(data)
    assert not any("Middlemarch" in example.question for example in train + held)
    assert left_out["a dev question"] > 0


def test_routes_keep_their_labels_and_sub_questions_are_single_steps(examples):
    (complex_,) = of(examples, "router", BORN.format("Emma"))
    assert complex_.target == "complex"
    (sub,) = of(examples, "router", "Where was Mr Emma born?")
    assert (sub.target, sub.source, sub.root) == ("single-step", "musique-train sub-question", BORN.format("Emma"))


def test_conjunctions_are_taken_apart_where_they_were_joined(examples):
    (also,) = of(examples, "decomposer", "Who wrote emma? Also, who wrote kim?")
    assert also.target == ("Who wrote emma?", "Who wrote kim?")
    (joined,) = of(examples, "decomposer", "Who wrote Emma and where is Bath?")
    assert joined.target == ("Who wrote Emma?", "Where is Bath?")


def test_a_conjunction_with_two_such_places_is_left_out(examples):
    assert not of(examples, "decomposer", "Who wrote Pride and Prejudice and where is Bath?")


def test_comparisons_are_taken_apart_into_their_look_ups(examples):
    (comparison,) = of(examples, "decomposer", "Which film came out first, Jaws or Alien?")
    assert comparison.target == ("When did Jaws come out?", "When did Alien come out?")


def test_the_refiner_learns_each_hop_from_the_hops_before_it(examples):
    first, second = sorted(of(examples, "refiner", BORN.format("Emma")), key=lambda example: len(example.turns))
    assert (first.target, first.turns) == ("Who wrote Emma?", ())
    assert second.target == "Where was Mr Emma born?"
    assert second.turns == (Turn("Who wrote Emma?", "Mr Emma"),)


def test_the_refiner_learns_to_leave_a_single_step_as_it_is(examples):
    stays = [example for example in examples if example.skill == "refiner" and example.label == "stays"]
    assert stays
    assert all(example.target == example.question and not example.turns for example in stays)


def test_the_last_hop_ends_and_those_before_it_do_not(examples):
    rows = of(examples, "ending", BORN.format("Emma"))
    assert {len(example.turns): example.target for example in rows} == {1: False, 2: True}


def test_sentences_that_answer_are_cut_down_to_the_official_evidence(examples):
    rows = of(examples, "ending", "Which film came out first, Jaws or Alien?")
    (ended,) = [example for example in rows if example.target]
    # The date of the first is written another way in the evidence, so that its sentence stays.
    assert [turn.answer for turn in ended.turns] == ["Jaws came out on June 20, 1975", "1979"]


def test_a_paragraph_without_the_answer_is_the_irrelevant_one(examples):
    rows = of(examples, "relevance", "When was Bath founded?")
    assert {example.target: example.text for example in rows} == {
        True: "Bath was founded in 43 AD.",
        False: "In Bath live 90,000.",  # the third paragraph is more similar, but has the answer
    }
    assert {example.title for example in rows} == {"City of Bath"}


def test_sub_questions_have_their_supporting_paragraph_and_the_most_similar_distractor(examples):
    rows = of(examples, "relevance", "Where was Mr Emma born?")
    assert {example.target: example.title for example in rows} == {True: "Mr Emma", False: "Books"}


def test_the_benchmarks_questions_are_routes_and_decompositions(data, tmp_path):
    path = tmp_path / "train.jsonl"
    parts = [{"question": "When did Phelps retire?"}, {"question": "When was Phelps born?"}]
    path.write_text(json.dumps({"question": "When was Phelps born, and when did he retire?", "decomposition": parts}))
    train, held, _ = all_examples(data, path)
    rows = of(train + held, "decomposer", "When was Phelps born, and when did he retire?")
    assert rows[0].target == ("When did Phelps retire?", "When was Phelps born?")
    assert of(train + held, "router", "When was Phelps born, and when did he retire?")[0].target == "compound"


def test_a_choice_is_balanced_and_does_not_depend_on_the_order(examples):
    few = chosen(examples, 8, seed=1)
    assert few == chosen(reversed(examples), 8, seed=1)
    assert few != chosen(examples, 8, seed=2)
    labels = Counter(example.label for example in few if example.skill == "ending")
    assert labels == {"ended": 4, "goes on": 4}
    routes = Counter(example.label for example in few if example.skill == "router")
    assert routes["straightforward"] == 1  # there is no more; its room goes to the others
    assert sum(routes.values()) == 8


def test_without_a_limit_all_are_chosen(examples):
    assert sorted(example.id for example in chosen(examples, None, seed=0)) == sorted(e.id for e in examples)


def test_ids_are_the_same_in_every_build(data):
    first, second = ([example.id for rows in all_examples(data)[:2] for example in rows] for _ in range(2))
    assert first == second
    assert len(set(first)) == len(first)


def test_an_unknown_route_is_named_with_its_line(data):
    write(data / "train/router.train.jsonl.gz", [{"question": "Who?", "label": "simple", "source": "x"}])
    with pytest.raises(InputError, match=r"router\.train\.jsonl\.gz, line 1: field 'label'"):
        all_examples(data)


def test_the_fixture_has_held_out_questions():
    assert 0 < sum(is_held_out(BORN.format(book)) for book in BOOKS) < len(BOOKS)
