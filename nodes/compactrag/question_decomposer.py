"""Question decomposer: one model call, a dependency graph of sub-questions (CompactRAG, Sec. 3.2.1)."""

from __future__ import annotations

from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from inference.limits import QuestionText
from nodes.compactrag.context import CompactContext
from nodes.compactrag.dag import build_dag, literal
from nodes.compactrag.state import CompactState
from nodes.kit.model import ask_model
from nodes.kit.rendering import quoted
from nodes.kit.state import Node
from nodes.kit.steps import step

__all__ = ["question_decomposer"]


class _SubQuestion(BaseModel):
    question: QuestionText
    depends_on: Annotated[list[int], Field(max_length=8)] = []


class Decomposition(BaseModel):
    """Output of the decomposer."""

    subquestions: list[_SubQuestion] = Field(min_length=1, max_length=16)


def question_decomposer(prompt: str) -> Node:
    """A node that splits the question. Without a decomposition that can be used the question stands for itself.

    Args:
        prompt: Name of the prompt; it is given `question`.
    """

    async def question_decomposer(state: CompactState, runtime: Runtime[Any]) -> dict[str, Any]:
        context: CompactContext = runtime.context
        question = state["question"]
        asked = await ask_model(runtime, prompt, Decomposition, {"question": quoted(question)}, at="root/decomposer")
        rows = [(row.question, row.depends_on) for row in (asked.value.subquestions if asked.value else [])]
        plan, problems = build_dag(rows, question, context.max_subquestions)
        if not plan:
            problems = [f"{asked.problem or 'there is no sub-question'}; the question stands for itself"]
            plan, _ = build_dag([(question, [])], question, 1)
        if "extractor" in context.ablate:  # no answer is waited for
            plan = [{**item, "wave": 1} for item in plan]
        known = state["knowledge"]
        row = step(
            "root/decomposer",
            "decompose",
            question=question,
            answer="\n".join(
                f"{item['number']}. {literal(item['question'])}"
                + (f"  (needs {', '.join(map(str, item['depends_on']))})" if item["depends_on"] else "")
                for item in plan
            ),
            verdict=f"{known['read']:,} of {known['passages']:,} passages are in the knowledge base"
            if known["read"] < known["passages"]
            else "",
            calls=len(asked.calls),
            fallback="; ".join([*problems, *filter(None, [asked.cut])]),
        )
        return {"plan": plan, "wave": 1, "trajectory": [row], "ledger": asked.calls}

    return question_decomposer
