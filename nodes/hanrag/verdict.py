"""Yes-or-no judgements: by the probability of `true` against a threshold, not by the text alone (HANRAG, App. A)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langgraph.runtime import Runtime
from pydantic import BaseModel

from inference.ledger import Call
from nodes.kit.model import Items, ask_model

__all__ = ["Verdict", "ask_verdict", "weigh"]


@dataclass(frozen=True)
class Verdict:
    """What came of a judgement."""

    holds: bool | None
    """None when it could not be read."""
    probability: float | None
    """Of `true`; None where only the text was to be had."""
    problem: str
    """What was amiss; "" when nothing was."""
    calls: list[Call]
    truncated: int


def weigh(probability: float, threshold: float) -> Verdict:
    """The verdict that a probability amounts to; what is compared is what is shown."""
    probability = round(probability, 6)
    return Verdict(probability >= threshold, probability, "", [], 0)


async def ask_verdict(
    runtime: Runtime[Any],
    *,
    node: str,
    step: str,
    prompt: str,
    values: Mapping[str, str],
    items: Sequence[str],
    items_as: str,
    output: type[BaseModel],
    threshold: float,
) -> Verdict:
    """Ask the model for a judgement.

    Args:
        runtime: The node's runtime; its context says whether probabilities are wanted (`verdicts`).
        node: For the ledger.
        step: Id of the step.
        prompt: Name of the prompt.
        values: Values of its variables.
        items: Blocks of text that fill the variable `items_as`.
        items_as: The variable for `items`.
        output: What the reply must be; its one field is a boolean.
        threshold: The judgement holds from this probability on.

    Raises:
        EndpointError: The endpoint gives no log-probabilities, and they are wanted.
    """
    (field,) = output.model_fields
    asked = await ask_model(
        runtime,
        prompt,
        output,
        values,
        at=step,
        items=Items(items_as, items),
        score=() if runtime.context.verdicts == "text" else (field,),
        binary=True,
    )
    if asked.value is None:
        return Verdict(None, None, asked.problem, asked.calls, asked.truncated)
    if asked.probability is not None:
        return replace(weigh(asked.probability, threshold), calls=asked.calls, truncated=asked.truncated)
    problem = "" if runtime.context.verdicts == "text" else "its tokens do not spell the verdict, whose text was taken"
    return Verdict(bool(getattr(asked.value, field)), None, problem, asked.calls, asked.truncated)
