"""Three ways to answer a question of the tree, and the choice between them (ProbTree, Sec. 3.3)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel

from inference.limits import Limited, LongText
from nodes.kit.abstention import is_abstention
from nodes.kit.model import NO_ITEMS, Asked, Items, ask_model
from nodes.kit.passages import interleave
from nodes.kit.rendering import UNKNOWN, passage_blocks, plain, quoted
from nodes.kit.search import search
from nodes.kit.state import PassageRef, RunError, StepKind, merge_by_id
from nodes.kit.steps import logged, step
from nodes.probtree.context import ProbTreeContext
from nodes.probtree.decomposer import mean
from nodes.probtree.state import Branch, Candidate, ProbTreeState, TreeNode, Way
from nodes.probtree.tree import NO_ANSWER, aggregated_score, evidence_of, likeliest
from prompts.parsing import COMMON


class Explained(BaseModel):
    """Output of all three ways. The explanation's tokens give the answer its score."""

    explanation: Annotated[str, Limited(800)]
    answer: LongText


async def closed_book(state: Branch, runtime: Runtime[ProbTreeContext]) -> dict[str, Any]:
    """Answer by what the model knows."""
    return await _answer(state, runtime, "closed_book")


async def open_book(state: Branch, runtime: Runtime[ProbTreeContext]) -> dict[str, Any]:
    """Answer from passages: those found for the question and for each answer that was put into it."""
    node = state["node"]
    at = f"{node['id']}/open_book"
    queries = {at: node["question"]} | {f"{at}/{n}": name for n, name in enumerate(node["entities"], start=1)}
    found = await search(state, runtime, queries, step=at)
    refs = interleave(found.hits)
    blocks = passage_blocks(found.passages[ref["id"]] for ref in refs)
    return await _answer(state, runtime, "open_book", items=Items("evidence", blocks), passages=refs, work=[found])


async def child_aggregating(state: Branch, runtime: Runtime[ProbTreeContext]) -> dict[str, Any]:
    """Answer from the sub-questions' answers."""
    lines = [
        f"{n}. {quoted(row['question'])} Answer: {quoted(row['answer']) or UNKNOWN}"
        for n, row in enumerate(state["children"], start=1)
    ]
    return await _answer(state, runtime, "child_aggregating", {"facts": "\n".join(lines)}, kind="aggregate")


async def _answer(
    state: Branch,
    runtime: Runtime[ProbTreeContext],
    way: Way,
    values: Mapping[str, str] | None = None,
    *,
    items: Items = NO_ITEMS,
    passages: Sequence[PassageRef] = (),
    work: Sequence[Any] = (),
    kind: StepKind = "answer",
) -> dict[str, Any]:
    node = state["node"]
    final = node["id"] == "root"
    asked: Asked[Explained] = await ask_model(
        runtime,
        f"probtree/{way}",
        Explained,
        # A sub-question may have no answer even where the run must give one (`abstain`).
        {"question": quoted(node["question"]), **(values or {}), **({} if final else COMMON)},
        at=f"{node['id']}/{way}",
        items=items,
        score=("explanation",),
        role="generator",
    )
    answer = plain(asked.value.answer) if asked.value else ""
    answer = "" if is_abstention(answer, words=not final or runtime.context.abstain == "on") else answer
    score = NO_ANSWER
    if answer:
        score = mean(asked.logprobs)
        score = aggregated_score(score, node, state["children"]) if way == "child_aggregating" else score
    candidate = Candidate(
        id=asked.at,
        node=node["id"],
        way=way,
        answer=answer,
        score=score,
        passages=list(passages),
        problem=asked.problem,
    )
    row = asked.step(
        kind,
        parent=node["id"],
        question=node["question"],
        answer=answer,
        score=_shown(score) if answer else None,
        evidence=[ref["id"] for ref in passages],
        searches=sum(call["kind"] == "search" for done in work for call in done.calls),
        instead="there is no answer",
    )
    return {"tree": [node], "candidates": [candidate], **logged(row, asked, *work)}


async def chooser(state: ProbTreeState, runtime: Runtime[ProbTreeContext]) -> dict[str, Any]:
    """Choose the likeliest answer of each question that has just been answered; the root's is the run's.

    A question without an answer counts as `NO_ANSWER`. The run fails if no reply about the root could be used.
    """
    tree = state["tree"]
    answered = {row["node"] for row in state["candidates"]}
    nodes: list[TreeNode] = []
    rows = []
    for node in tree:
        if node["score"] is not None or node["id"] not in answered:
            continue
        candidates = [row for row in state["candidates"] if row["node"] == node["id"]]
        best = likeliest(candidates)
        answer, score = (best["answer"], best["score"]) if best else ("", NO_ANSWER)
        nodes.append({**node, "chosen": best["way"] if best else None, "answer": answer, "score": score})
        told = ", ".join(f"{row['way']} {_shown(row['score']):.3f}" for row in candidates if row["answer"])
        rows.append(
            step(
                f"{node['id']}/chooser",
                "judge",
                parent=node["id"],
                question=node["question"],
                answer=answer,
                verdict=f"{best['way']} ({told})" if best else "no answer",
                score=_shown(score) if best else None,
                evidence=[ref["id"] for ref in best["passages"]] if best else [],
            )
        )
    update: dict[str, Any] = {"tree": nodes, **logged(rows)}
    root = next((node for node in nodes if node["id"] == "root"), None)
    if root is None:
        return update
    problems = [row["problem"] for row in state["candidates"] if row["node"] == "root"]
    failed = all(problems) and not root["answer"]
    rests_on = evidence_of(merge_by_id(tree, nodes), state["candidates"])
    return {
        **update,
        "answer": root["answer"],
        "status": "answered" if root["answer"] else "failed" if failed else "unanswerable",
        "error": RunError(kind="model_output", message=problems[0], node="chooser") if failed else None,
        "evidence": list({ref["id"]: ref for row in rests_on for ref in row["passages"]}.values()),
    }


def _shown(score: float) -> float:
    """A score as people read it: the geometric mean of the tokens' probabilities."""
    return round(math.exp(score), 4)
