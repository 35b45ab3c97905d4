"""Question Analyzer: break a multi-hop question into sub-questions."""

from __future__ import annotations

from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from inference.limits import Limited, QuestionText
from nodes.kit.model import ask_model
from nodes.kit.rendering import plain, quoted
from nodes.kit.state import Node, State
from nodes.kit.steps import step

__all__ = ["MAX_SUBQUESTIONS", "Subquestions", "ThoughtAndSubquestions", "analyzer"]

MAX_SUBQUESTIONS = 8


class Subquestions(BaseModel):
    """Output of the analyzer."""

    subquestions: list[QuestionText] = Field(max_length=MAX_SUBQUESTIONS)


class ThoughtAndSubquestions(BaseModel):
    """The same, after thinking about it."""

    thought: Annotated[str, Limited(600)]
    subquestions: list[QuestionText] = Field(max_length=MAX_SUBQUESTIONS)


def analyzer(
    prompt: str, *, name: str = "analyzer", output: type[Subquestions | ThoughtAndSubquestions] = Subquestions
) -> Node:
    """A node that writes `subquestions`, in order, without repeats.

    If the model's output can't be used, or holds no sub-question, the question stands for itself and the step says so.

    Args:
        prompt: Name of the prompt; it is given `question`.
        name: The node's name.
        output: What is asked for.
    """

    async def analyzer(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        question = state["question"]
        asked = await ask_model(runtime, prompt, output, {"question": quoted(question)}, at=f"root/{name}")
        written = asked.value.subquestions if asked.value else []
        subquestions = list(dict.fromkeys(text for item in written if (text := plain(item))))
        fallback = asked.problem or ("" if subquestions else "no sub-question was written")
        if fallback:
            subquestions = [question]
            fallback += "; the question itself was used"
        row = step(
            f"root/{name}",
            "decompose",
            question=question,
            answer="\n".join(subquestions),
            calls=len(asked.calls),
            fallback=fallback or asked.cut,
        )
        return {"subquestions": subquestions, "trajectory": [row], "ledger": asked.calls}

    return analyzer
