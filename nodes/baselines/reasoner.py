"""Reasoner: the next sentence of a chain of thought, from the passages found so far (IRCoT, Trivedi et al. 2023)."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel

from inference.limits import Limited
from nodes.generator import passages_or_sentences
from nodes.kit.model import Items, ask_model
from nodes.kit.rendering import numbered, plain, quoted
from nodes.kit.steps import logged
from stores.sentences import split_sentences

CONCLUSION = "answer is"
"""A sentence that contains this ends the chain of thought."""


def round_id(state: Any) -> str:
    """Id of the current round: a search, and the sentence written after it."""
    return f"root/{len(state['thoughts']) + 1}"


class NextSentence(BaseModel):
    """Output of the reasoner."""

    sentence: Annotated[str, Limited(600)]


async def reasoner(state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
    """Add one sentence to the `thoughts`, the first of the output.

    A sentence that states the answer concludes the chain, and so does output that can't be parsed: the step records it,
    and the answer is written from the evidence so far.
    """
    thoughts, at = state["thoughts"], round_id(state)
    asked = await ask_model(
        runtime,
        "ircot/thought",
        NextSentence,
        {"question": quoted(state["question"]), "thoughts": numbered(thoughts) or "(none)"},
        at=f"{at}/reasoner",
        items=Items("evidence", await passages_or_sentences(state, runtime.context)),
    )
    written = plain(asked.value.sentence) if asked.value else ""
    [sentences] = await asyncio.to_thread(split_sentences, [written])
    thought = sentences[0] if sentences else ""
    concluded = not thought or CONCLUSION in thought.casefold()
    row = asked.step(
        "decompose",
        parent=at,
        question=state["question"],
        answer=thought,
        verdict="sufficient" if thought and concluded else "said before" if thought in thoughts else "",
        problem="" if thought else "the sentence is empty",
        instead="the reasoning ends here",
    )
    now = [*thoughts, thought] if thought else thoughts
    return {"thoughts": now, "concluded": concluded, **logged(row, asked)}
