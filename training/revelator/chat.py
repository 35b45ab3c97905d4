"""Examples as chats: the very prompts that HANRAG's nodes send, and the structured output that they should get back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

from pydantic import BaseModel

from inference.chat import Message
from nodes.analyzer import ThoughtAndSubquestions
from nodes.chain import Hop, written
from nodes.hanrag.ending_discriminator import EndingVerdict
from nodes.hanrag.refiner import RefinedQuestion
from nodes.hanrag.relevance_discriminator import RelevanceVerdict
from nodes.hanrag.routes import RouteChoice
from nodes.kit.rendering import passage_block, quoted
from prompts.loader import load_prompt
from stores.passages import Passage
from training.lora.chats import Chat, ChatMessage
from training.revelator.examples import Example

OUTPUTS: Mapping[str, type[BaseModel]] = {
    "router": RouteChoice,
    "decomposer": ThoughtAndSubquestions,
    "refiner": RefinedQuestion,
    "relevance": RelevanceVerdict,
    "ending": EndingVerdict,
}
"""What the nodes ask for."""


def as_chat(example: Example) -> Chat:
    """The chat of an example.

    Raises:
        InputError: The skill's prompt is malformed.
    """
    return Chat(
        id=example.id,
        skill=example.skill,
        label=example.label,
        source=example.source,
        question=example.question,
        prompt=[ChatMessage(role=message.role, content=message.content) for message in _prompt(example)],
        completion=[
            ChatMessage(role="assistant", content=json.dumps(_reply(example).model_dump(), ensure_ascii=False))
        ],
    )


def _prompt(example: Example) -> list[Message]:
    values = {"question": quoted(example.question)}
    if example.skill in ("refiner", "ending"):
        values["chain"] = "\n".join(_chain(example)) or "(none)"
    elif example.skill == "relevance":
        values["passage"] = passage_block(1, Passage(example.id, example.title, example.text))
    return load_prompt(f"hanrag/{example.skill}").render(values)


def _chain(example: Example) -> list[str]:
    return written([_hop(number, turn.question, turn.answer) for number, turn in enumerate(example.turns, start=1)])


def _hop(number: int, question: str, answer: str) -> Hop:
    return Hop(
        id=f"root/{number}",
        question=question,
        retrieved=[],
        relevance=[],
        kept=[],
        flagged=False,
        answer=answer,
        problem="",
        ending=None,
        ended=False,
    )


def _reply(example: Example) -> BaseModel:
    """What the model should reply, in the form that the node asks for."""
    target = example.target
    match example.skill:
        case "router":
            return RouteChoice.model_validate({"route": target})
        case "decomposer":
            parts = list(cast(Sequence[str], target))
            return ThoughtAndSubquestions(thought=_THOUGHTS[min(len(parts), 4)], subquestions=parts)
        case "refiner":
            return RefinedQuestion(question=str(target))
        case "relevance":
            return RelevanceVerdict(relevant=bool(target))
        case "ending":
            return EndingVerdict(sufficient=bool(target))


_THOUGHTS = {
    1: "It asks for one thing.",
    2: "It asks for two things.",
    3: "It asks for three things.",
    4: "It asks for several things.",
}
"""The data has sub-questions and no thoughts."""
