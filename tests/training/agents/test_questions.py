from __future__ import annotations

import pytest

from hopgraph.simulation.case import Case, Fact
from training.agents.questions import Lesson, asked_in, lessons, turned


def test_each_row_gives_a_lesson_of_its_kind_or_none(data):
    found = {lesson.case.question: lesson for lesson in lessons(data)}
    assert {question: lesson.kind for question, lesson in found.items()} == {
        "Where was the director of film Alpha born?": "decomposed",
        "Where was the director of film Beta born?": "decomposed",
        "Where was the director of film Gamma born?": "decomposed",
        "Which river flows through the home of Ann Lee?": "decomposed",
        "Which director's family lived in Rome before Beta?": "whole",
        "Which river flows through oslo in the east?": "single",
    }
    assert len(found["Where was the director of film Alpha born?"].passages) == 4


def test_relations_are_asked_in_words_and_unknown_answers_described(data):
    case = next(iter(lessons(data))).case
    director, born = case.facts
    assert case.ask(director, {}) == "Who directed Alpha (film)?"
    assert case.ask(born, {}) == "Where was the director of Alpha (film) born?"
    assert case.ask(born, {1: "Ann Lee"}) == "Where was Ann Lee born?"
    assert case.statement(director, {1: "Ann Lee"}) == "The director of Alpha (film) is Ann Lee."


def test_a_named_answer_of_an_earlier_step_becomes_a_reference(data):
    case = next(lesson.case for lesson in lessons(data) if "river" in lesson.case.question)
    assert [(fact.words, fact.needs) for fact in case.facts] == [
        ("What is the home of Ann Lee?", ()),
        ("Which river flows through #1?", (1,)),
    ]
    assert case.statement(case.facts[1], {1: "Oslo", 2: "Akerselva"}) == "Which river flows through Oslo? Akerselva."


def test_a_question_of_one_hop_is_stated_with_its_answer(data):
    case = next(lesson.case for lesson in lessons(data) if lesson.kind == "single")
    said = case.statement(case.facts[0], {1: "the Akerselva"})
    assert said == "Which river flows through oslo in the east? the Akerselva."


def test_a_lesson_that_asks_what_a_dev_question_needs_is_left_out(data):
    asked = set().union(*map(asked_in, lessons(data)))
    assert "alpha film director" in asked
    assert not any("delta" in text for text in asked)


def comparison(question: str, answer: str, names: tuple[str, str] = ("Ann Lee", "Bo Day")) -> Lesson:
    facts = tuple(
        Fact(number, f"When was {name} born?", name, "date of birth", (), value, ("shown",))
        for number, (name, value) in enumerate(zip(names, ("3 May 1942", "7 June 1950"), strict=True), start=1)
    )
    return Lesson("decomposed", "2wikimultihopqa-train", Case(question, (answer,), facts), ())


@pytest.mark.parametrize(
    ("question", "answer", "other", "then"),
    [
        ("Who was born earlier, Ann Lee or Bo Day?", "Ann Lee", "Who was born later, Ann Lee or Bo Day?", "Bo Day"),
        ("Who was born first, Bo Day or Ann Lee?", "Ann Lee", "Who was born later, Bo Day or Ann Lee?", "Bo Day"),
        ("Who is younger, Ann Lee or Bo Day?", "Bo Day", "Who is older, Ann Lee or Bo Day?", "Ann Lee"),
    ],
)
def test_a_comparison_is_also_asked_the_other_way_round(question, answer, other, then):
    lesson = comparison(question, answer)
    found = turned(lesson)
    assert found is not None
    assert (found.case.question, found.case.answers) == (other, (then,))
    assert found.case.facts == lesson.case.facts


@pytest.mark.parametrize(
    "lesson",
    [
        comparison("Were Ann Lee and Bo Day born in the same year?", "no"),
        comparison("Who was born earlier, First Lee or Bo Day?", "First Lee", ("First Lee", "Bo Day")),
        comparison("Was Ann Lee born earlier than Bo Day?", "yes"),
    ],
    ids=["no direction", "a name that looks like one", "yes or no"],
)
def test_what_asks_for_neither_of_two_is_not_turned(lesson):
    assert turned(lesson) is None
