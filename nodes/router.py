"""Router: the path of a question (HANRAG, Sec. 4.1; the classifier of Adaptive-RAG)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any, get_args

from langgraph.runtime import Runtime
from pydantic import BaseModel

from inference.errors import InputError
from inference.heads import revelator
from inference.heads.revelator import Route
from nodes.kit.model import ask_model
from nodes.kit.rendering import quoted
from nodes.kit.state import Node
from nodes.kit.steps import logged, step


def normalized(label: object) -> object:
    """A label as in the schema; HANRAG's prompt spells one "single-step question"."""
    if not isinstance(label, str):
        return label
    return re.sub(r"[\s-]+", "_", label.casefold().strip(" .").removesuffix("question").strip())


def given_route(given: Any, routes: Any) -> Any:
    """The route given with the question, if any.

    Args:
        given: The input.
        routes: The literal type of all routes.

    Raises:
        InputError: There is no such route.
    """
    route = given.get("gold_route")
    if route is not None and route not in get_args(routes):
        raise InputError(f"gold_route: {route!r} is none", hint=f"one of {', '.join(get_args(routes))}")
    return route


def router(prompt: str, *, output: type[BaseModel], falls_under: Mapping[Route, str]) -> Node:
    """A node that chooses the `route`. Output that can't be parsed means single-step, and the step records it.

    A route given with the question, or set for all questions, is taken without a model call (the oracle router). If the
    context selects the encoder, it chooses, and the step has its probability.

    Args:
        prompt: Name of the prompt; it is given `question`.
        output: Schema of the reply; it has a field `route`.
        falls_under: Route to take, by class of the encoder.
    """

    async def router(state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        context = runtime.context
        at, question = "root/router", state["question"]
        given = state["route"] or context.route
        if context.router == "oracle" and not given:
            raise InputError(
                "gold_route: the oracle router needs it", hint="pass `gold_route` with the question (`eval` does so)"
            )
        if given:
            return {"route": given, **logged(step(at, "route", question=question, answer=f"{given} (given)"))}
        if context.by_encoder("router"):
            [predicted] = await asyncio.to_thread(revelator.route, [question])
            mass = dict.fromkeys(falls_under.values(), 0.0)
            for route, probability in zip(revelator.ROUTES, predicted.probabilities, strict=True):
                mass[falls_under[route]] += probability
            likely = max(mass, key=mass.__getitem__)
            row = step(
                at, "route", question=question, answer=f"{likely} (by the encoder)", score=round(mass[likely], 6)
            )
            return {"route": likely, **logged(row)}
        asked = await ask_model(runtime, prompt, output, {"question": quoted(question)}, at=at)
        route = getattr(asked.value, "route", "single_step")
        row = asked.step(
            "route", question=question, answer=route, instead="the question is taken for a single-step one"
        )
        return {"route": route, **logged(row, asked)}

    return router
