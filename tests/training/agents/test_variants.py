from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from hopgraph.simulation.answering import earlier
from hopgraph.simulation.case import Case, Fact
from inference.chat import Message
from training.agents.build import as_chat
from training.agents.play import Exchange, Round
from training.agents.questions import Lesson
from training.agents.variants import DRAWN, comparing_variants, drawing_variants, reading_variants
from training.lora.chats import ChatSchema

OLD, YOUNG = "3 May 1942", "7 June 1950"
FACTS = tuple(
    Fact(number, f"When was {name} born?", name, "date of birth", (), answer, ())
    for number, (name, answer) in enumerate((("Ann Lee", OLD), ("Bob Ray", YOUNG)), start=1)
)
STEPS = f"1. {FACTS[0].words} Answer: {OLD}\n2. {FACTS[1].words} Answer: {YOUNG}"
SHOWN = f"{STEPS}\n\n<question>Who was born first?</question>"


def compared(ann: str, bob: str) -> str:
    """The thought about two days."""
    first = earlier(ann, bob)
    days, names = (ann, bob), ("Ann Lee", "Bob Ray")
    when = days if ann[-4:] == bob[-4:] else (ann[-4:], bob[-4:])
    how = f"{when[first]} is before {when[1 - first]}."
    which = f"The earlier is {names[first]}, the later is {names[1 - first]}."
    asked = f"The question asks for the earlier. The earlier is {names[first]}."
    return f"Ann Lee: {ann}. Bob Ray: {bob}. {how} {which} {asked}"


def exchange(answer: str, *, shown: str = SHOWN, wrong: float = 0.0, facts: tuple[Fact, ...] = FACTS) -> Exchange:
    lesson = Lesson("decomposed", "s", Case("Who was born first?", (answer,), facts), ())
    messages = (Message("system", f"{OLD} is in the instructions."), Message("user", shown))
    reply = json.dumps({"thought": f"Ann Lee: {OLD}.", "answer": answer})
    return Exchange(
        Round(lesson, "hanrag", "hybrid", wrong),
        "synthesizer",
        messages,
        reply,
        "right",
        ChatSchema(name="s", schema={}),
    )


def test_a_comparison_is_shown_again_with_its_values_exchanged_and_the_other_answer():
    [found] = comparing_variants([exchange("Ann Lee")])
    assert found.messages[1].content == SHOWN.replace(OLD, "X").replace(YOUNG, OLD).replace("X", YOUNG)
    assert found.messages[0] == exchange("Ann Lee").messages[0]
    assert json.loads(found.reply) == {"thought": f"Ann Lee: {YOUNG}.", "answer": "Bob Ray"}


def test_the_thought_compares_the_exchanged_values_anew():
    why = compared(OLD, YOUNG)
    one = replace(exchange("Ann Lee"), reply=json.dumps({"thought": why, "answer": "Ann Lee"}))
    [found] = comparing_variants([one])
    assert json.loads(found.reply) == {"thought": compared(YOUNG, OLD), "answer": "Bob Ray"}


def test_drawn_dates_are_shown_and_compared():
    why = compared(OLD, YOUNG)
    one = replace(exchange("Ann Lee"), reply=json.dumps({"thought": why, "answer": "Ann Lee"}))
    drawn = list(drawing_variants([one], 0))
    assert len({found.messages[1].content for found in drawn}) == DRAWN
    for found in drawn:
        days = re.findall(r"Answer: (.*)", found.messages[1].content)
        first = ("Ann Lee", "Bob Ray")[earlier(*days)]
        assert json.loads(found.reply) == {"thought": compared(*days), "answer": first}
        assert as_chat(found)["label"] == "compares"


def test_drawn_countries_are_the_same_or_not_as_the_answer_says():
    def same_country(*countries: str) -> Exchange:
        facts = tuple(
            replace(fact, relation="country", answer=text) for fact, text in zip(FACTS, countries, strict=True)
        )
        shown = "\n".join(f"{number}. Country? Answer: {text}" for number, text in enumerate(countries, start=1))
        one = exchange("yes" if countries[0] == countries[1] else "no", shown=shown, facts=facts)
        return replace(one, reply=json.dumps({"thought": "t", "answer": one.round.lesson.case.answers[0]}))

    drawn = list(drawing_variants([same_country("Peru", "Chad"), same_country("Mali", "Mali")], 0))
    answers = []
    for found in drawn:
        one, other = re.findall(r"Answer: (.*)", found.messages[1].content)
        answers.append(json.loads(found.reply)["answer"])
        assert answers[-1] == ("yes" if one == other else "no")
        assert as_chat(found)["label"] == "decomposed"  # which of two is not asked
    assert set(answers) == {"yes", "no"}


def test_values_are_exchanged_as_whole_words():
    facts = tuple(replace(fact, answer=text) for fact, text in zip(FACTS, ("Peru", "Chad"), strict=True))
    [found] = comparing_variants([exchange("Ann Lee", shown="Answer: Peru. A Peruvian; Answer: Chad", facts=facts)])
    assert found.messages[1].content == "Answer: Chad. A Peruvian; Answer: Peru"


@pytest.mark.parametrize(
    "one",
    [
        exchange("yes"),
        exchange("Ann Lee", wrong=0.15),
        exchange("Ann Lee", shown=SHOWN.replace(YOUNG, "1950")),
        exchange("Ann Lee", facts=(FACTS[0], replace(FACTS[1], answer="1942"))),
        exchange("Ann Lee", facts=FACTS[:1]),
        replace(exchange("Ann Lee"), reply='{"question": "When was Ann Lee born?"}'),
    ],
)
def test_what_is_no_comparison_of_two_shown_values_is_left_alone(one):
    assert list(comparing_variants([one])) == []


def test_a_comparison_has_its_own_label_where_nothing_is_decided():
    one = exchange("Ann Lee")
    assert as_chat(one)["label"] == "compares"
    decided = replace(one, reply='{"type": "final", "answer": "Ann Lee"}')
    assert as_chat(decided)["label"] == "final"
    assert as_chat(replace(one, reply='{"answer": "3 May 1942"}'))["label"] == "decomposed"


@pytest.mark.parametrize(
    ("text", "asked"),
    [("Ann Lee sings.", {FACTS[0].words, FACTS[1].words}), (f"Ann Lee sang on {OLD}.", {FACTS[1].words})],
)
def test_a_reader_is_not_taught_to_abstain_where_the_passages_have_the_answer(text, asked):
    one = exchange("Ann Lee", shown=f"{text}\n\n<question>Who was born first?</question>")
    one = replace(one, node="generator")
    found = list(reading_variants([one], [one.round.lesson], seed=0))
    assert {
        variant.messages[-1].content.partition("<question>")[2].removesuffix("</question>") for variant in found
    } == asked
    assert {variant.reply for variant in found} == {'{"answer": "Not Answerable"}'}
