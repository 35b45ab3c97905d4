"""Planner: predict a question's hop count, and write a plan after an exemplar of that many (PAR-RAG, Sec. 3.3)."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Annotated, Any, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from inference.heads.hops import predict_hops
from inference.limits import Limited, QuestionText
from nodes.kit.model import ask_model
from nodes.kit.rendering import plain, quoted
from nodes.kit.state import Node
from nodes.kit.steps import step
from nodes.parrag.context import ParContext
from nodes.parrag.state import ParState, PlanStep
from stores.exemplars import Exemplar, choose_exemplars

__all__ = ["hop_predictor", "planner"]


class _PlanStep(BaseModel):
    thought: Annotated[str, Limited(600)]
    question: QuestionText
    action: Literal["Retrieve", "Answer"]


class Plan(BaseModel):
    """Output of the planner."""

    steps: list[_PlanStep] = Field(min_length=1, max_length=12)


def hop_predictor() -> Node:
    """A node that predicts the hop count on a small local model, and from it the weight of accuracy (Eq. 9)."""

    async def hop_predictor(state: ParState, runtime: Runtime[Any]) -> dict[str, Any]:
        context: ParContext = runtime.context
        if context.hop_count is not None:
            hops, how, score = context.hop_count, "given", None
        else:
            prediction = (await asyncio.to_thread(predict_hops, [state["question"]]))[0]
            hops, how, score = prediction.hops, "predicted", round(max(prediction.probabilities), 3)
        alpha = 1 / (1 + math.exp(context.gamma * (hops - context.h0)))
        row = step(
            "root/hop_predictor",
            "route",
            question=state["question"],
            answer=f"{hops} {'hop' if hops == 1 else 'hops'} ({how})",
            score=score,
        )
        return {"hops": hops, "alpha": round(alpha, 4), "trajectory": [row]}

    return hop_predictor


def planner(prompt: str) -> Node:
    """A node that writes the plan. One that can't be read is replaced by a single step, the question itself.

    Args:
        prompt: Name of the prompt; it is given `question` and `exemplars`.
    """

    async def planner(state: ParState, runtime: Runtime[Any]) -> dict[str, Any]:
        context: ParContext = runtime.context
        question = state["question"]
        if "plan" in context.ablate:
            row = step("root/planner", "decompose", question=question, answer=question, verdict="no plan")
            return {"plan": [_single(question)], "current": 0, "exemplars": [], "trajectory": [row]}
        examples = await asyncio.to_thread(
            choose_exemplars, question, context.exemplars, hops=state["hops"], count=context.exemplar_count
        )
        asked = await ask_model(
            runtime, prompt, Plan, {"question": quoted(question), "exemplars": _written(examples)}, at="root/planner"
        )
        plan = [_planned(row) for row in (asked.value.steps if asked.value else []) if plain(row.question)]
        fallback = asked.problem or ("" if plan else "the plan has no step")
        row = step(
            "root/planner",
            "decompose",
            question=question,
            answer="\n".join(f"{item['action']}: {item['question']}" for item in plan[: context.max_steps]),
            verdict=f"cut to {context.max_steps} of {len(plan)} steps" if len(plan) > context.max_steps else "",
            calls=len(asked.calls),
            fallback=f"{fallback}; the question is the only step" if fallback else asked.cut,
        )
        return {
            "plan": plan[: context.max_steps] or [_single(question)],
            "current": 0,
            "exemplars": [example.id for example in examples],
            "trajectory": [row],
            "ledger": asked.calls,
        }

    return planner


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
