"""Question decomposer: one model call, a dependency graph of sub-questions (CompactRAG, Sec. 3.2.1)."""

from __future__ import annotations

from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from inference.limits import QuestionText
from nodes.compactrag.context import CompactContext
from nodes.compactrag.dag import build_dag, literal
from nodes.compactrag.state import CompactState, SubQuestion
from nodes.kit.model import ask_model
from nodes.kit.rendering import quoted
from nodes.kit.steps import logged


class _SubQuestion(BaseModel):
    question: QuestionText
    depends_on: Annotated[list[int], Field(max_length=8)]


class Decomposition(BaseModel):
    """Output of the decomposer."""

    subquestions: list[_SubQuestion] = Field(min_length=1, max_length=16)


async def question_decomposer(state: CompactState, runtime: Runtime[CompactContext]) -> dict[str, Any]:
    """Split the question. Without a usable decomposition the question itself is used."""
    context, question, known = runtime.context, state["question"], state["knowledge"]
    values = {"question": quoted(question)}
    asked = await ask_model(runtime, "compactrag/decomposer", Decomposition, values, at="root/decomposer")
    rows = [(row.question, row.depends_on) for row in (asked.value.subquestions if asked.value else [])]
    plan, problems = build_dag(rows, question, context.max_subquestions)
    if not plan:
        problems = [f"{asked.problem or 'there is no sub-question'}; the question itself is used"]
        plan, _ = build_dag([(question, [])], question, 1)
    if "extractor" in context.ablate:  # no answer is waited for
        plan = [{**item, "wave": 1} for item in plan]
    row = asked.step(
        "decompose",
        question=question,
        answer="\n".join(map(_written, plan)),
        verdict=f"{known['read']:,} of {known['passages']:,} passages are in the knowledge base"
        if known["read"] < known["passages"]
        else "",
        fallback="; ".join([*problems, *filter(None, [asked.cut])]),
    )
    return {"plan": plan, "wave": 1, **logged(row, asked)}


def _written(item: SubQuestion) -> str:
    needs = f"  (needs {', '.join(map(str, item['depends_on']))})" if item["depends_on"] else ""
    return f"{item['number']}. {literal(item['question'])}{needs}"
