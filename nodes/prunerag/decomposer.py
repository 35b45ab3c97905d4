"""Query decomposition module: search, then answer, split or abstract a node's query (PruneRAG, Sec. 3.2.1)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Literal, Union

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field, RootModel

from inference.limits import LongText, QuestionText
from nodes.generator import is_abstention
from nodes.kit.model import Items, ask_model
from nodes.kit.passages import fetch
from nodes.kit.rendering import passage_block, plain, quoted
from nodes.kit.search import search
from nodes.kit.state import Node
from nodes.kit.steps import step
from nodes.prunerag.context import PruneContext
from nodes.prunerag.state import Branch, TreeNode
from nodes.prunerag.tree import distinct

__all__ = ["decomposer", "gated", "open_branches"]

BranchKind = Literal["answer", "query", "entity"]
_CHOICES = {
    "answer": '{"type": "answer", "answer": "..."} if the passages suffice to answer the query',
    "nothing else": '{"type": "answer", "answer": "..."}, with an empty answer if the passages do not suffice',
    "query": '{"type": "query", "queries": [SLOTS]} if the query can be split into NUMBER simpler queries',
    "entity": '{"type": "entity", "entities": ["..."]} if it can neither be answered nor split: its key entities',
}


def open_branches(context: PruneContext, depth: int, barred: bool) -> tuple[BranchKind, ...]:
    """What a node may do, by ablations and depth, and whether answering is barred; () when nothing can come of it."""
    ablate = context.ablate
    last = depth >= context.max_depth
    if "adaptive" in ablate:
        return ("query",) if not last else () if "answer" in ablate else ("answer",)
    allowed: list[BranchKind] = []
    if not barred and "answer" not in ablate:
        allowed.append("answer")
    if not last:
        allowed.append("query")
        if "entity" not in ablate:
            allowed.append("entity")
    return tuple(allowed)


def decomposer(prompt: str) -> Node:
    """A node that expands one node of the tree: one search, one model call.

    The call returns exactly one of an answer, sub-queries, or entities; what is barred or ablated is not offered. A
    node that is asked again keeps its documents. What becomes of an answer is the confidence gate's business.

    Args:
        prompt: Name of the prompt; it is given `query`, `parent`, `question`, `choices` and `documents`.

    Raises:
        EndpointError: The endpoint gives no log-probabilities, which the confidence is made of.
    """

    async def decomposer(state: Branch, runtime: Runtime[Any]) -> dict[str, Any]:
        context: PruneContext = runtime.context
        node, barred = state["node"], state.get("barred", False)
        step_id = f"{node['id']}/again" if barred else node["id"]
        calls = []
        if barred:
            passages = await fetch(state, [ref["id"] for ref in node["documents"]])
        else:
            found = await search(state, runtime, {step_id: node["query"]}, node="decomposer")
            node = {**node, "documents": found.hits[0]}
            passages = [found.passages[ref["id"]] for ref in node["documents"]]
            calls += found.calls
        branches = open_branches(context, node["depth"], barred)
        problem, cut, truncated = "", "", 0
        if branches:
            asked = await ask_model(
                runtime,
                prompt,
                _output(branches, context.branching),
                {
                    "question": quoted(state["question"]),
                    "query": quoted(node["query"]),
                    "parent": quoted(state.get("parent_query") or "(none: this is the question itself)"),
                    "choices": _choices(branches, context.branching),
                },
                at=step_id,
                node="decomposer",
                items=Items(
                    "documents", [passage_block(number, passage) for number, passage in enumerate(passages, start=1)]
                ),
                score=("answer",) if "answer" in branches and gated(context) else (),
            )
            calls += asked.calls
            problem, cut, truncated = asked.problem, asked.cut, asked.truncated
            node = _expanded(node, asked.value.root if asked.value else None, asked.logprobs, gated(context))
        else:
            node = {**node, "verdict": "evidence", "pruned": "the last level"}
        if problem:
            node = {**node, "verdict": "evidence", "pruned": "the model's output could not be used"}
        answered = bool(node["answer"]) and not barred  # a node that is asked again keeps its rejected answer
        if problem:
            fallback = f"{problem}; its documents are kept as evidence"
        elif answered and gated(context) and not asked.logprobs:
            fallback = "the tokens that were given do not spell the answer; its confidence counts as 0"
        else:
            fallback = cut
        row = step(
            step_id,
            "answer" if answered else "decompose",
            node="decomposer",
            parent=node["id"] if barred else node["parent"],
            question=node["query"],
            answer=node["answer"] if answered else "\n".join(node["branches"]),
            verdict=f"pruned: {node['pruned']}" if node["pruned"] else "",
            score=None if barred else node["confidence"],
            evidence=[ref["id"] for ref in node["documents"]],
            calls=sum(call["kind"] == "model" for call in calls),
            searches=0 if barred else 1,
            truncated=truncated,
            fallback=fallback,
        )
        return {"tree": [node], "trajectory": [row], "ledger": calls}

    return decomposer


class _AnswerBranch(BaseModel):
    type: Literal["answer"]
    answer: LongText


@lru_cache(maxsize=32)
def _output(branches: tuple[BranchKind, ...], branching: int) -> Any:
    """The output model: one of the branches that are open."""

    class QueryBranch(BaseModel):
        type: Literal["query"]
        queries: list[QuestionText] = Field(min_length=branching, max_length=branching)

    class EntityBranch(BaseModel):
        type: Literal["entity"]
        entities: list[QuestionText] = Field(min_length=1, max_length=branching)

    kinds: dict[BranchKind, type[BaseModel]] = {"answer": _AnswerBranch, "query": QueryBranch, "entity": EntityBranch}
    return RootModel[Union[tuple(kinds[branch] for branch in branches)]]  # type: ignore[misc]  # noqa: UP007


def _choices(branches: tuple[BranchKind, ...], branching: int) -> str:
    """The open branches, in words."""
    slots = ", ".join(['"..."'] * branching)
    number = {2: "two", 3: "three", 4: "four"}[branching]
    said = ("nothing else",) if branches == ("answer",) else branches
    return "\n".join("- " + _CHOICES[choice].replace("SLOTS", slots).replace("NUMBER", number) for choice in said)


def gated(context: PruneContext) -> bool:
    """Whether answers have to pass the confidence gate; two ablations do without it (Sec. 4.4)."""
    return not {"confidence", "adaptive"} & set(context.ablate)


def _expanded(node: TreeNode, chosen: Any, logprobs: list[float], gated: bool) -> TreeNode:
    """The node with what the model made of it."""
    if chosen is None:
        return node
    if chosen.type == "answer":
        answer = "" if is_abstention(plain(chosen.answer)) else plain(chosen.answer)
        confidence = math.exp(sum(logprobs) / len(logprobs)) if logprobs and answer else 0.0
        return {**node, "answer": answer, "confidence": round(confidence, 6) if gated else None, "branches": []}
    if chosen.type == "query":
        return {**node, "verdict": "split", "branches": [text for item in chosen.queries if (text := plain(item))]}
    return {**node, "verdict": "abstracted", "branches": distinct(chosen.entities)}
