from __future__ import annotations

from training.agents.questions import asked_in, lessons


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
