from __future__ import annotations

import json
from pathlib import Path

import pytest

from inference.errors import InputError
from tests.training.conftest import write
from tests.training.revelator.conftest import BORN, EXTRACTED
from training.revelator.examples import SKILLS, Example, Turn
from training.revelator.sources import all_examples


@pytest.fixture
def examples(data: Path) -> list[Example]:
    train, held, _ = all_examples(data)
    return train + held


def of(examples: list[Example], skill: str, question: str) -> list[Example]:
    return [example for example in examples if example.skill == skill and example.question == question]


def test_every_skill_has_examples(examples):
    assert {example.skill for example in examples} == set(SKILLS)


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


def test_comparisons_are_complex_and_not_taken_apart(examples):
    (comparison,) = of(examples, "router", "Which film came out first, Jaws or Alien?")
    assert comparison.target == "complex"
    assert not of(examples, "decomposer", "Which film came out first, Jaws or Alien?")
    assert {example.target for example in examples if "? Also, " in example.question} >= {"compound"}


def test_simple_questions_about_one_entity_are_merged_into_compound_ones(examples):
    merged = [example for example in examples if example.source == "extractor.train, merged by rule"]
    assert {example.root for example in merged} == {"Moby Dick"}
    (route,) = (example for example in merged if example.skill == "router")
    (parts,) = (example for example in merged if example.skill == "decomposer")
    assert route.target == "compound"
    assert route.question == parts.question
    assert isinstance(parts.target, tuple)
    assert len(parts.target) > 1
    assert set(parts.target) <= set(EXTRACTED)


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


def test_ids_are_the_same_in_every_build(data):
    first, second = ([example.id for rows in all_examples(data)[:2] for example in rows] for _ in range(2))
    assert first == second
    assert len(set(first)) == len(first)


def test_an_unknown_route_is_named_with_its_line(data):
    write(data / "train/router.train.jsonl.gz", [{"question": "Who?", "label": "simple", "source": "x"}])
    with pytest.raises(InputError, match=r"router\.train\.jsonl\.gz, line 1: field 'label'"):
        all_examples(data)
