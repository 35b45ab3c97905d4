"""Decomposer: the whole tree of sub-questions in one call, with the probability of each split (ProbTree, Sec. 3.2)."""

from __future__ import annotations

import math
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from inference.limits import QuestionText
from inference.structured import EACH
from nodes.kit.model import ask_model
from nodes.kit.rendering import quoted
from nodes.kit.steps import logged
from nodes.probtree.context import ProbTreeContext
from nodes.probtree.state import ProbTreeState
from nodes.probtree.tree import NO_ANSWER, Split, build

SLOTS = 4
"""Sub-questions of a question at most."""


class _Split(BaseModel):
    question: QuestionText
    subquestions: Annotated[list[QuestionText], Field(max_length=SLOTS)]


class Decomposition(BaseModel):
    """Output of the decomposer."""

    tree: Annotated[list[_Split], Field(max_length=15)]


def mean(logprobs: list[float]) -> float:
    """Mean log-probability of tokens; `NO_ANSWER` without tokens."""
    return sum(logprobs) / len(logprobs) if logprobs else NO_ANSWER


async def decomposer(state: ProbTreeState, runtime: Runtime[ProbTreeContext]) -> dict[str, Any]:
    """Split the question, and its sub-questions where they are not simple. Output that can't be parsed splits nothing.

    Raises:
        EndpointError: The endpoint gives no log-probabilities.
    """
    context, question = runtime.context, state["question"]
    asked = await ask_model(
        runtime,
        "probtree/decomposer",
        Decomposition,
        {"question": quoted(question)},
        at="root",
        score=("tree", EACH, "subquestions"),
    )
    rows = asked.value.tree if asked.value else []
    scores = [mean(logprobs) for logprobs in asked.each] + [NO_ANSWER] * len(rows)
    splits = [Split(row.question, row.subquestions, score) for row, score in zip(rows, scores, strict=False)]
    tree = build(question, splits, max_depth=context.max_depth, max_nodes=context.max_nodes)
    below = [node for node in tree.nodes if node["parent"]]
    row = asked.step(
        "decompose",
        parent="",
        question=question,
        answer="\n".join(f"{node['id'].removeprefix('root/').replace('/', '.')}. {node['words']}" for node in below),
        verdict="" if below else "not split",
        score=round(math.exp(tree.nodes[0]["decomposition"]), 4) if below else None,
        problem="; ".join(tree.problems),
        instead="the question is not split" if asked.problem else "",
    )
    return {"tree": tree.nodes, **logged(row, asked)}
