"""Yes-or-no judgements: by the probability of `true` against a threshold, not by the text alone (HANRAG, App. A)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from langgraph.runtime import Runtime
from pydantic import BaseModel

from nodes.hanrag.context import HanContext
from nodes.kit.model import Items, ask_model
from nodes.kit.place import node_name
from nodes.kit.steps import Work


@dataclass(frozen=True, kw_only=True)
class Verdict(Work):
    """Result of a yes-or-no judgement."""

    holds: bool | None
    """None if it can't be parsed."""
    probability: float | None
    """Of `true`; None if only the text is available."""


def weigh(at: str, probability: float, threshold: float) -> Verdict:
    """The verdict for a probability, rounded before it is compared, as it is shown."""
    probability = round(probability, 6)
    return Verdict(at=at, node=node_name(), holds=probability >= threshold, probability=probability)


async def ask_verdict(
    runtime: Runtime[HanContext],
    prompt: str,
    output: type[BaseModel],
    values: Mapping[str, str],
    *,
    at: str,
    items: Items,
    threshold: float,
) -> Verdict:
    """Ask the model for a judgement.

    Args:
        runtime: The node's runtime; its context says whether to use probabilities (`verdicts`).
        prompt: Name of the prompt.
        output: What the reply must be; its one field is a boolean.
        values: Values of the prompt's variables.
        at: Id of the step.
        items: Blocks of text for one more variable.
        threshold: The judgement holds at this probability or above.

    Raises:
        EndpointError: The endpoint gives no log-probabilities, and they are required.
    """
    (field,) = output.model_fields
    by_text = runtime.context.verdicts == "text"
    score = () if by_text else (field,)
    asked = await ask_model(runtime, prompt, output, values, at=at, items=items, score=score, binary=True)
    if asked.value is not None and asked.probability is not None:
        return replace(weigh(at, asked.probability, threshold), calls=asked.calls, truncated=asked.truncated)
    problem = "" if by_text else "its tokens do not spell the verdict, whose text was taken"
    return Verdict(
        at=at,
        node=asked.node,
        calls=asked.calls,
        truncated=asked.truncated,
        problem=asked.problem if asked.value is None else problem,
        holds=None if asked.value is None else bool(getattr(asked.value, field)),
        probability=None,
    )
