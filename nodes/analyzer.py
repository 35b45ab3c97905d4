"""Question Analyzer: break a multi-hop question into sub-questions."""

from __future__ import annotations

from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from inference.limits import Limited, QuestionText
from nodes.kit.model import ask_model
from nodes.kit.place import node_name
from nodes.kit.rendering import plain, quoted
from nodes.kit.state import Node, State
from nodes.kit.steps import logged

MAX_SUBQUESTIONS = 8


class Subquestions(BaseModel):
    """Output of the analyzer."""

    subquestions: list[QuestionText] = Field(max_length=MAX_SUBQUESTIONS)


class ThoughtAndSubquestions(BaseModel):
    """The same, with reasoning first."""

    thought: Annotated[str, Limited(600)]
    subquestions: list[QuestionText] = Field(max_length=MAX_SUBQUESTIONS)


def analyzer(prompt: str, *, output: type[Subquestions | ThoughtAndSubquestions] = Subquestions) -> Node:
    """A node that writes `subquestions`, in order, without repeats.

    If the model's output can't be used, or has no sub-question, the question itself is used and the step records it.

    Args:
        prompt: Name of the prompt; it is given `question`.
        output: Schema of the reply.
    """

    async def analyzer(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        question = state["question"]
        asked = await ask_model(runtime, prompt, output, {"question": quoted(question)}, at=f"root/{node_name()}")
        written = asked.value.subquestions if asked.value else []
        subquestions = list(dict.fromkeys(text for item in written if (text := plain(item))))
        row = asked.step(
            "decompose",
            question=question,
            answer="\n".join(subquestions or [question]),
            problem="" if subquestions else "no sub-question was written",
            instead="the question itself was used",
        )
        return {"subquestions": subquestions or [question], **logged(row, asked)}

    return analyzer
