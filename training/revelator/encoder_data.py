"""What the Revelator's encoder is trained on: the examples that a language model is tuned on, and some more.

Only router, relevance and ending are classification; the rest of `examples` is left to a language model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

from training.revelator.chains import musique_turns
from training.revelator.examples import ROUTES as ROUTE_LABELS
from training.revelator.examples import Example, Turn, divided
from training.revelator.sources import all_examples
from training.rows import objects_of, rows_of, text_of

__all__ = ["SKILLS", "EncoderSkill", "dev_chains", "divided_examples", "is_for_calibration", "label_of", "passage_of"]

EncoderSkill = Literal["router", "relevance", "ending"]
SKILLS: tuple[EncoderSkill, ...] = get_args(EncoderSkill)

UNANSWERED = ("unknown", "not mentioned", "I don't know.", "The passages do not say.", "insufficient information")
_PARAGRAPHS = 12
"""Of SQuAD one question in this many is shown with paragraphs: they are long."""
_ONE_STEP = 40
"""Of SQuAD one question in this many is a chain of one step."""


def divided_examples(data: Path) -> tuple[list[Example], list[Example], list[Example]]:
    """Examples to train on, to calibrate on (a tenth of the rest), and held out ones.

    Beside those that `all_examples` makes:
    - relevance: a whole multi-hop question with its supporting paragraphs and all its distractors, HotpotQA's too;
    - ending: a last answer that says that there is none does not end a chain; and a one-hop question is answered by
      one step, for questions that are taken for complex by mistake (App. B.4 does so for the refiner).

    Raises:
        InputError: A file is missing or malformed.
    """
    train, held, _ = all_examples(data)
    rest, held_too, _ = divided([*_whole_questions(data), *_more_endings(train + held), *_single_steps(data)], data)
    known = [
        example
        for example in train + rest
        if example.skill in SKILLS and not (_is_paragraph(example) and _number(example.root) % _PARAGRAPHS)
    ]
    measured = [example for example in held + held_too if example.skill in SKILLS]
    calibration = [example for example in known if is_for_calibration(example.root)]
    return [example for example in known if not is_for_calibration(example.root)], calibration, measured


def is_for_calibration(root: str) -> bool:
    """Whether a question that is not held out is kept to set probabilities right on: a tenth, by hash."""
    return _number(f"calibration {root}") % 10 == 0


def label_of(example: Example) -> int:
    """The example's class: index of the route, or 1 for relevant or ended and 0 for not."""
    return ROUTE_LABELS.index(str(example.target)) if example.skill == "router" else int(bool(example.target))


def passage_of(example: Example) -> str:
    """The passage of an example about relevance, as the encoder reads it."""
    return f"{example.title}\n{example.text}"


def dev_chains(data: Path, name: str) -> list[Example]:
    """Chains of a data set's dev questions, whole and broken off: to measure with, never to train on.

    Raises:
        InputError: The file is missing or malformed.
    """
    found = []
    for where, row in rows_of(data / name / "questions.jsonl.gz"):
        question = text_of(row, "question", where)
        parts = [part for part in row.get("decomposition", ()) if isinstance(part, dict)]
        if not all(part.get("answer") for part in parts):
            continue
        turns = musique_turns(row, [(text_of(part, "question", where), str(part["answer"])) for part in parts])
        for length in range(1, len(turns) + 1):
            ended, source = length == len(turns), f"{name}, {row.get('type', '')}"
            found.append(Example("ending", source, question, question, ended, tuple(turns[:length])))
    return found


def _is_paragraph(example: Example) -> bool:
    return example.skill == "relevance" and "squad" in example.source


def _whole_questions(data: Path) -> Iterator[Example]:
    for where, row in rows_of(data / "train" / "multihop_context.train.jsonl.gz"):
        question, source = text_of(row, "question", where), str(row.get("source", ""))
        for one in objects_of(row, "paragraphs", where):
            supports = bool(one.get("is_supporting"))
            title, text = str(one.get("title", "")), text_of(one, "text", where)
            yield Example("relevance", source, question, question, supports, title=title, text=text)


def _more_endings(examples: Sequence[Example]) -> Iterator[Example]:
    for example in examples:
        if example.skill == "ending" and example.target and _number(example.root) % 2:
            turns = (*example.turns[:-1], replace(example.turns[-1], answer=_none(example.root)))
            yield replace(example, source=f"{example.source}, no last answer", target=False, turns=turns)


def _single_steps(data: Path) -> Iterator[Example]:
    for where, row in rows_of(data / "train" / "single_span_qa.train.jsonl.gz"):
        asked, source = text_of(row, "question", where), f"{row.get('source', '')}, one step"
        if _number(asked) % _ONE_STEP == 0:
            for ended, said in ((True, text_of(row, "answer", where)), (False, _none(asked))):
                yield Example("ending", source, asked, asked, ended, (Turn(asked, said),))


def _none(seed: str) -> str:
    return UNANSWERED[_number(f"none {seed}") % len(UNANSWERED)]


def _number(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16)
