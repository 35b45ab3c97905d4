"""Planner: a plan, written after an exemplar of as many hops (PAR-RAG, Sec. 3.3)."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from inference.limits import Limited, QuestionText
from nodes.kit.model import ask_model
from nodes.kit.rendering import plain, quoted
from nodes.kit.steps import logged, step
from nodes.parrag.context import ParContext
from nodes.parrag.state import ParState, PlanStep
from stores.exemplars import Exemplar, choose_exemplars


class _PlanStep(BaseModel):
    thought: Annotated[str, Limited(600)]
    question: QuestionText
    action: Literal["Retrieve", "Answer"]


class Plan(BaseModel):
    """Output of the planner."""

    steps: list[_PlanStep] = Field(min_length=1, max_length=12)


async def planner(state: ParState, runtime: Runtime[ParContext]) -> dict[str, Any]:
    """Write the plan. One that can't be read is replaced by a single step, the question itself."""
    context, question = runtime.context, state["question"]
    if "plan" in context.ablate:
        row = step("root/planner", "decompose", question=question, answer=question, verdict="no plan")
        return {"plan": [_single(question)], "current": 0, "exemplars": [], **logged(row)}
    examples = await asyncio.to_thread(
        choose_exemplars, question, context.exemplars, hops=state["hops"], count=context.exemplar_count
    )
    values = {"question": quoted(question), "exemplars": _written(examples), "steps": str(context.max_steps)}
    asked = await ask_model(runtime, "parrag/planner", Plan, values, at="root/planner")
    plan = [_planned(row) for row in (asked.value.steps if asked.value else []) if plain(row.question)]
    kept = plan[: context.max_steps]
    row = asked.step(
        "decompose",
        question=question,
        answer="\n".join(f"{item['action']}: {item['question']}" for item in kept),
        verdict=f"cut to {len(kept)} of {len(plan)} steps" if len(plan) > len(kept) else "",
        problem="" if plan else "the plan has no step",
        instead="the question is the only step",
    )
    return {
        "plan": kept or [_single(question)],
        "current": 0,
        "exemplars": [example.id for example in examples],
        **logged(row, asked),
    }


def _single(question: str) -> PlanStep:
    return PlanStep(thought="", question=question, action="Retrieve", asked=question, attempts=[], chosen=0)


def _planned(row: _PlanStep) -> PlanStep:
    question = plain(row.question)
    return PlanStep(
        thought=plain(row.thought), question=question, action=row.action, asked=question, attempts=[], chosen=0
    )


def _written(examples: list[Exemplar]) -> str:
    """Exemplars as the prompt shows them."""
    blocks = []
    for example in examples:
        plan = {"steps": [{"thought": s.thought, "question": s.question, "action": s.action} for s in example.steps]}
        written = json.dumps(plan, ensure_ascii=False, separators=(",", ":"))
        blocks.append(f"Example question: {example.question}\nExample plan: {written}")
    return "\n\n".join(blocks) or "(no example)"
