"""Query decomposition module: search, then answer, split or abstract a node's query (PruneRAG, Sec. 3.2.1)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Literal, Union

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field, RootModel

from inference.limits import LongText, QuestionText
from nodes.kit.abstention import is_abstention
from nodes.kit.model import Asked, Items, ask_model
from nodes.kit.passages import fetch
from nodes.kit.rendering import passage_blocks, plain, quoted
from nodes.kit.search import search
from nodes.kit.steps import HasCalls, logged
from nodes.prunerag.context import PruneContext
from nodes.prunerag.state import Branch, TreeNode
from nodes.prunerag.tree import distinct

NAME = "decomposer"
"""Under which a node that is asked again is recorded, too."""
BranchKind = Literal["answer", "query", "entity", "none"]
_ANSWER = "An answer is short (a name, a date, a place, a number, yes or no) and rests on the passages alone"
_CHOICES = {
    "answer": f'{{"type": "answer", "answer": "..."}} if the passages suffice to answer the query. {_ANSWER}',
    "nothing else": '{"type": "answer", "answer": "..."}, with an empty answer if the passages do not suffice. '
    + _ANSWER,
    "query": '{"type": "query", "queries": [SLOTS]} if the query can be split into NUMBER simpler queries. They are '
    "clear by themselves, differ from the query and from what it was split from, and together lead to its answer; a "
    "fact that the passages already state is put into them",
    "entity": '{"type": "entity", "entities": ["..."]} if it can neither be answered nor split: its key entities, '
    "which are the names and the relations to search for",
    "none": '{"type": "none"} if it can neither be answered nor split',
}

_REJECTED = 'The answer "{}" was rejected: it is not certain enough. Answering is closed for this query.'


def open_branches(context: PruneContext, depth: int, barred: bool) -> tuple[BranchKind, ...]:
    """The allowed branches, by ablations, depth and whether answering is barred; () if there are none."""
    ablate = context.ablate
    last = depth >= context.max_depth
    if "adaptive" in ablate:
        return ("query",) if not last else () if "answer" in ablate else ("answer",)
    allowed: list[BranchKind] = []
    if not barred and "answer" not in ablate:
        allowed.append("answer")
    if not last:
        allowed.append("query")
        allowed.append("none" if "entity" in ablate else "entity")
    return tuple(allowed)


async def decomposer(state: Branch, runtime: Runtime[PruneContext]) -> dict[str, Any]:
    """Expand one node of the tree: one search, one model call.

    The call returns exactly one of an answer, sub-queries, or entities; what is barred or ablated is not offered. A
    node that is asked again keeps its documents, and its rejected answer. The confidence gate judges answers.

    Raises:
        EndpointError: The endpoint gives no log-probabilities, which the confidence is computed from.
    """
    context, node, barred = runtime.context, state["node"], state.get("barred", False)
    at = f"{node['id']}/again" if barred else node["id"]
    work: list[HasCalls] = []
    if barred:
        passages = await fetch(state, [ref["id"] for ref in node["documents"]])
    else:
        found = await search(state, runtime, {at: node["query"]}, node=NAME)
        node = {**node, "documents": found.hits[0]}
        passages = [found.passages[ref["id"]] for ref in node["documents"]]
        work.append(found)
    branches, by_confidence = open_branches(context, node["depth"], barred), gated(context)
    asked: Asked[Any] = Asked(at=at, node=NAME, value=None)
    if branches:
        asked = await ask_model(
            runtime,
            "prunerag/decomposer",
            _output(branches, context.branching),
            {
                "question": quoted(state["question"]),
                "query": quoted(node["query"]),
                "parent": quoted(state.get("parent_query") or "(none: this is the question itself)"),
                "rejected": _REJECTED.format(quoted(node["answer"])) if barred and node["answer"] else "",
                "choices": _choices(branches, context.branching),
            },
            at=at,
            items=Items("documents", passage_blocks(passages)),
            score=("answer",) if "answer" in branches and by_confidence else (),
            node=NAME,
        )
        work.append(asked)
        node = _expanded(node, asked.value.root if asked.value else None, asked.logprobs, by_confidence)
    if not branches or asked.problem:
        reason = "the model's output could not be used" if branches else "the last level"
        node = {**node, "verdict": "evidence", "pruned": reason}
    answered = bool(node["answer"]) and not barred
    row = asked.step(
        "answer" if answered else "decompose",
        parent=node["id"] if barred else node["parent"],
        question=node["query"],
        answer=node["answer"] if answered else "\n".join(node["branches"]),
        verdict=f"pruned: {node['pruned']}" if node["pruned"] else "",
        score=None if barred else node["confidence"],
        evidence=[ref["id"] for ref in node["documents"]],
        searches=0 if barred else 1,
        instead="its documents are kept as evidence",
    )
    if answered and by_confidence and not asked.logprobs:
        row["fallback"] = "the tokens that were given do not spell the answer; its confidence counts as 0"
    return {"tree": [node], **logged(row, *work)}


class _NoBranch(BaseModel):
    type: Literal["none"]


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

    kinds: dict[BranchKind, type[BaseModel]] = {
        "answer": _AnswerBranch,
        "query": QueryBranch,
        "entity": EntityBranch,
        "none": _NoBranch,
    }
    return RootModel[Union[tuple(kinds[branch] for branch in branches)]]  # type: ignore[misc]  # noqa: UP007


def _choices(branches: tuple[BranchKind, ...], branching: int) -> str:
    """The open branches as text for the prompt."""
    slots = ", ".join(['"..."'] * branching)
    number = {2: "two", 3: "three", 4: "four"}[branching]
    said = ("nothing else",) if branches == ("answer",) else branches
    return "\n".join("- " + _CHOICES[choice].replace("SLOTS", slots).replace("NUMBER", number) for choice in said)


def gated(context: PruneContext) -> bool:
    """Whether answers have to pass the confidence gate; two ablations do without it (Sec. 4.4)."""
    return not {"confidence", "adaptive"} & set(context.ablate)


def _expanded(node: TreeNode, chosen: Any, logprobs: list[float], gated: bool) -> TreeNode:
    """The node with the model's output."""
    if chosen is None:
        return node
    if chosen.type == "answer":
        answer = "" if is_abstention(plain(chosen.answer)) else plain(chosen.answer)
        confidence = math.exp(sum(logprobs) / len(logprobs)) if logprobs and answer else 0.0
        return {**node, "answer": answer, "confidence": round(confidence, 6) if gated else None, "branches": []}
    if chosen.type == "none":
        return {**node, "verdict": "evidence", "pruned": "it can neither be answered nor split"}
    if chosen.type == "query":
        return {**node, "verdict": "split", "branches": [text for item in chosen.queries if (text := plain(item))]}
    return {**node, "verdict": "abstracted", "branches": distinct(chosen.entities)}
