"""An example of one of the Revelator's five skills, the split of examples, and a balanced choice of them.

An example knows the question it is held out by: all hops of a multi-hop question, and a question's relevant and
irrelevant passages, are on one side of the split. Nothing here knows a prompt; `chat` puts examples into those, and
`sources` makes them from training data.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from training.rows import dev_questions
from training.words import normalised

Skill = Literal["router", "decomposer", "refiner", "relevance", "ending"]
SKILLS: tuple[Skill, ...] = get_args(Skill)
ROUTES = ("straightforward", "single-step", "compound", "complex")
HELD_OUT = 10
"""One question in this many is held out."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One hop: its question and its answer."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Example:
    """An input of one skill, and the right output."""

    skill: Skill
    source: str
    root: str
    """The question that decides on which side of the split the example is."""
    question: str
    target: str | bool | tuple[str, ...]
    """Route, sub-questions, next seed question, relevant or not, ended or not."""
    turns: tuple[Turn, ...] = ()
    """What is known by then (refiner, ending)."""
    title: str = ""
    text: str = ""
    """The passage (relevance)."""

    @property
    def label(self) -> str:
        """What kind of example it is, for counts and for a balanced choice."""
        match self.skill:
            case "router":
                return str(self.target)
            case "decomposer":
                parts = self.target if isinstance(self.target, tuple) else ()
                return "1 part" if len(parts) == 1 else f"{len(parts)} parts"
            case "refiner":
                return f"hop {len(self.turns) + 1}" if self.target != self.question else "stays"
            case "relevance":
                return "relevant" if self.target else "irrelevant"
            case "ending":
                return "ended" if self.target else "continues"

    @property
    def id(self) -> str:
        """Sixteen hex digits of all that it says: the same example has the same id in every build."""
        turns = [[turn.question, turn.answer] for turn in self.turns]
        facts = [self.skill, self.question, turns, self.title, self.text, self.target]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def is_held_out(question: str) -> bool:
    """Whether a question is held out: a tenth of all, by the hash of its words."""
    return int(hashlib.sha256(normalised(question).encode()).hexdigest(), 16) % HELD_OUT == 0


def divided(examples: Iterable[Example], data: Path) -> tuple[list[Example], list[Example], dict[str, int]]:
    """Examples to train on, held-out examples, and how many were left out for what cause.

    A training example is left out when its root or its own question is a dev question (or a sub-question of one) of
    any data set, or is asked in a held-out example of the same skill.

    Args:
        examples: Examples of any skills.
        data: Folder that holds a folder for each data set.

    Raises:
        InputError: A file is missing or malformed.
    """
    dev = dev_questions(data)
    left_out = {"a dev question": 0, "asked in a held-out example": 0, "repeated": 0}
    held: list[Example] = []
    rest: list[Example] = []
    seen: set[str] = set()
    for example in examples:
        if {normalised(example.root), normalised(example.question)} & dev:
            left_out["a dev question"] += 1
        elif example.id in seen:
            left_out["repeated"] += 1
        else:
            seen.add(example.id)
            (held if is_held_out(example.root) else rest).append(example)
    asked = {(example.skill, normalised(example.question)) for example in held}
    train = [example for example in rest if (example.skill, normalised(example.question)) not in asked]
    left_out["asked in a held-out example"] = len(rest) - len(train)
    return train, held, left_out


def chosen(examples: Iterable[Example], limit: int | None, seed: int) -> list[Example]:
    """At most `limit` examples of each skill, as many of each label as there are or an equal share, in random order.

    The choice depends on the seed and the examples alone, not on their order.
    """

    def place(example: Example) -> str:
        return hashlib.sha256(f"{seed}\0{example.id}".encode()).hexdigest()

    groups: dict[Skill, dict[str, list[Example]]] = defaultdict(lambda: defaultdict(list))
    for example in sorted(examples, key=place):
        groups[example.skill][example.label].append(example)
    kept: list[Example] = []
    for skill in SKILLS:
        labels = sorted(groups[skill].values(), key=len)
        room = limit if limit is not None else sum(map(len, labels))
        for number, rows in enumerate(labels):
            share = rows[: room // (len(labels) - number)]
            kept += share
            room -= len(share)
    return sorted(kept, key=place)
