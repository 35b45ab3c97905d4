"""Router: which path a question takes (HANRAG, Sec. 4.1; the classifier of Adaptive-RAG)."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, BeforeValidator

from inference import revelator
from nodes.context import HanContext
from nodes.model import ask_model
from nodes.rendering import quoted
from nodes.state import HanState, Node, Route
from nodes.steps import step

__all__ = ["router"]


def _bare(label: object) -> object:
    """A label as the schema has it; the paper's prompt spells one "single-step question"."""
    if not isinstance(label, str):
        return label
    return label.casefold().strip(" .").removesuffix("question").strip().replace("-", "_")


class RouteChoice(BaseModel):
    """Output of the router."""

    route: Annotated[Route, BeforeValidator(_bare)]


def router(prompt: str) -> Node:
    """A node that chooses the `route`. One that can't be read is single-step, and the step says so.

    A route that came with the question, or is set for all questions, is taken without asking (the oracle router). Where
    the context says so the encoder chooses, and its step has the probability.

    Args:
        prompt: Name of the prompt; it is given `question`.
    """

    async def router(state: HanState, runtime: Runtime[Any]) -> dict[str, Any]:
        context: HanContext = runtime.context
        question = state["question"]
        if given := state["route"] or context.route:
            row = step("root/router", "route", "router", question=question, answer=f"{given} (given)")
            return {"route": given, "trajectory": [row]}
        if context.by_encoder("router"):
            [predicted] = await asyncio.to_thread(revelator.route, [question])
            row = step(
                "root/router",
                "route",
                "router",
                question=question,
                answer=f"{predicted.route} (by the encoder)",
                score=round(max(predicted.probabilities), 6),
            )
            return {"route": predicted.route, "trajectory": [row]}
        asked = await ask_model(
            runtime,
            node="router",
            step="root/router",
            prompt=prompt,
            values={"question": quoted(question)},
            output=RouteChoice,
        )
        route = asked.value.route if asked.value else "single_step"
        row = step(
            "root/router",
            "route",
            "router",
            question=question,
            answer=route,
            calls=len(asked.calls),
            fallback=f"{asked.problem}; the question is taken for a single-step one" if asked.problem else "",
        )
        return {"route": route, "trajectory": [row], "ledger": asked.calls}

    return router
