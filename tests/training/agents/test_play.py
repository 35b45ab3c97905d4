from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime

import pytest

from hopgraph.simulation.case import Case, Fact
from inference.chat import Message
from training.agents.build import as_chat
from training.agents.play import DRAWN, Exchange, Round, comparing_variants, drawing_variants
from training.agents.questions import Lesson

OLD, YOUNG = "3 May 1942", "7 June 1950"
FACTS = tuple(
    Fact(number, f"When was {name} born?", name, "date of birth", (), answer, ())
    for number, (name, answer) in enumerate((("Ann Lee", OLD), ("Bob Ray", YOUNG)), start=1)
)
STEPS = f"1. {FACTS[0].words} Answer: {OLD}\n2. {FACTS[1].words} Answer: {YOUNG}"
SHOWN = f"{STEPS}\n\n<question>Who was born first?</question>"


def exchange(answer: str, *, shown: str = SHOWN, wrong: float = 0.0, facts: tuple[Fact, ...] = FACTS) -> Exchange:
    lesson = Lesson("decomposed", "s", Case("Who was born first?", (answer,), facts), ())
    messages = (Message("system", f"{OLD} is in the instructions."), Message("user", shown))
    reply = json.dumps({"thought": f"Ann Lee: {OLD}.", "answer": answer})
    return Exchange(Round(lesson, "hanrag", "hybrid", wrong), "synthesizer", messages, reply, "right")


def test_a_comparison_is_shown_again_with_its_values_exchanged_and_the_other_answer():
    [found] = comparing_variants([exchange("Ann Lee")])
    assert found.messages[1].content == SHOWN.replace(OLD, "X").replace(YOUNG, OLD).replace("X", YOUNG)
    assert found.messages[0] == exchange("Ann Lee").messages[0]
    assert json.loads(found.reply) == {"thought": f"Ann Lee: {YOUNG}.", "answer": "Bob Ray"}


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
    assert as_chat(one)["label"] == "one of two"
    assert as_chat(exchange("yes"))["label"] == "same or not"
    decided = replace(one, reply='{"type": "final", "answer": "Ann Lee"}')
    assert as_chat(decided)["label"] == "final"
    assert as_chat(replace(one, reply='{"answer": "3 May 1942"}'))["label"] == "decomposed"


def dates_of(found: Exchange) -> list[datetime]:
    return [datetime.strptime(text, "%d %B %Y") for text in re.findall(r"Answer: (.+)", found.messages[1].content)]


@pytest.mark.parametrize("answer", ["Ann Lee", "Bob Ray"])
def test_dates_are_drawn_and_the_answer_follows_from_them(answer):
    found = list(drawing_variants([exchange(answer)], seed=1))
    assert len({one.messages[1].content for one in found}) == DRAWN
    assert found == list(drawing_variants([exchange(answer)], seed=1)) != list(drawing_variants([exchange(answer)], 2))
    for one in found:
        first, second = dates_of(one)
        earlier, later = ("Ann Lee", "Bob Ray") if first < second else ("Bob Ray", "Ann Lee")
        reply = json.loads(one.reply)
        assert reply["answer"] == (earlier if answer == "Ann Lee" else later)
        assert datetime.strptime(reply["thought"], "Ann Lee: %d %B %Y.") == first
        assert OLD in one.messages[0].content
    assert {json.loads(one.reply)["answer"] for one in found} == {"Ann Lee", "Bob Ray"}


def countries(*values: str) -> tuple[Fact, ...]:
    return tuple(replace(fact, relation="country", answer=text) for fact, text in zip(FACTS, values, strict=True))


@pytest.mark.parametrize(("answer", "second"), [("yes", "Peru"), ("no", "Chad")])
def test_equal_and_different_countries_are_drawn_and_the_answer_follows_from_them(answer, second):
    facts = countries("Peru", second)
    shown = "1. Country of one? Answer: Peru\n2. Peruvian? Answer: {}\n\n<question>Is it the same?</question>"
    more = exchange("no", facts=countries("Mali", "Cuba"))
    one = replace(exchange(answer, shown=shown.format(second), facts=facts), reply=json.dumps({"answer": answer}))
    found = list(drawing_variants([one, more], seed=0))
    assert len(found) == DRAWN
    for variant in found:
        values = re.findall(r"Answer: (.+)", variant.messages[1].content)
        assert json.loads(variant.reply) == {"answer": "yes" if values[0] == values[1] else "no"}
        assert "Peruvian?" in variant.messages[1].content
    assert {json.loads(variant.reply)["answer"] for variant in found} == {"yes", "no"}


@pytest.mark.parametrize(
    "one",
    [
        exchange("yes"),
        exchange("Ann Lee", wrong=0.15),
        exchange("Ann Lee", shown=SHOWN.replace(YOUNG, "1950")),
        exchange("Ann Lee", facts=(FACTS[0], replace(FACTS[1], answer="a year later"))),
        replace(exchange("Ann Lee"), node="generator"),
    ],
)
def test_values_are_not_drawn_where_the_answer_would_not_follow(one):
    assert list(drawing_variants([one], seed=0)) == []
