from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hopgraph.simulation.case import Case
from inference.chat import Message
from training.agents.play import Exchange, Round
from training.agents.questions import Lesson
from training.lora.chats import ChatSchema


@pytest.mark.parametrize(
    ("asked", "kind", "repeats"),
    [
        ("Who directed Alpha?", "decomposed", True),
        ("who directed alpha?", "decomposed", True),
        ("Where was the director of Alpha born?", "decomposed", True),
        ("Where was the director of Alpha born?", "single", False),
        ("Where was Ann Lee born?", "decomposed", False),
    ],
)
def test_what_asks_again_is_no_example(asked, kind, repeats):
    case = Case("Where was the director of Alpha born?", ("Oslo",), ())
    shown = f"<question>{case.question}</question>\nKnown:\n1. Who directed Alpha? Answer: Ann Lee"
    play = Round(Lesson(kind, "s", case, ()), "hanrag", "hybrid", 0.0)
    one = Exchange(
        play,
        "refiner",
        (Message("user", shown),),
        json.dumps({"question": asked}),
        "right",
        ChatSchema(name="s", schema={}),
    )
    assert (one.repeats, one.is_lesson) == (repeats, not repeats)
    assert not replace(one, node="generator").repeats
