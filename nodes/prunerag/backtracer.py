"""Bottom-up backtracing: from the leaves' answers and evidence to the root's answer (PruneRAG, Sec. 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel

from inference.limits import Limited
from nodes.generator import Answer, read_answer
from nodes.kit.model import Items, ask_model
from nodes.kit.passages import fetch, interleave
from nodes.kit.rendering import passage_block, plain, quoted
from nodes.kit.state import Node, RunError
from nodes.kit.steps import step
from nodes.prunerag.context import PruneContext
from nodes.prunerag.state import Branch, PruneState, TreeNode
from nodes.prunerag.tree import children, passed_up, unresolved

__all__ = ["aggregator", "backtracer", "conclude", "next_to_resolve", "summarizer"]


class Summary(BaseModel):
    """Output of the summarizer."""

    summary: Annotated[str, Limited(800)]


def next_to_resolve(tree: Sequence[TreeNode], context: PruneContext) -> list[TreeNode]:
    """The nodes whose results can be worked out now: those with nothing unresolved below them.

    Leaves that are evidence need no call: only their documents go up. With `backtrace="single_call"` the root alone
    does.
    """
    waiting = [node for node in unresolved(tree) if not _is_leaf_evidence(tree, node)]
    if context.backtrace == "single_call":
        return [node for node in waiting if node["id"] == "root"]
    below = {node["parent"] for node in waiting}
    return [node for node in waiting if node["id"] not in below]


def _is_leaf_evidence(tree: Sequence[TreeNode], node: TreeNode) -> bool:
    """A query node whose documents go up and nothing else; the root is none, someone has to answer."""
    if node["id"] == "root":
        return False
    if node["kind"] == "entity":
        return not node["documents"]
    return not children(tree, node)


def backtracer() -> Node:
    """A node where the tasks of a round of backtracing meet; what is next, `next_to_resolve` says."""

    async def backtracer(state: PruneState, runtime: Runtime[Any]) -> dict[str, Any]:
        return {}

    return backtracer


def summarizer(prompt: str) -> Node:
    """A node that turns an entity node's documents into evidence in words.

    Args:
        prompt: Name of the prompt; it is given `query`, `entities` and `documents`.
    """

    async def summarizer(state: Branch, runtime: Runtime[Any]) -> dict[str, Any]:
        node = state["node"]
        passages = await fetch(state, [ref["id"] for ref in node["documents"]])
        asked = await ask_model(
            runtime,
            prompt,
            Summary,
            {"query": quoted(node["query"]), "entities": quoted("; ".join(node["entities"]))},
            at=f"{node['id']}/summary",
            items=Items(
                "documents", [passage_block(number, passage) for number, passage in enumerate(passages, start=1)]
            ),
        )
        summary = plain(asked.value.summary) if asked.value else ""
        row = step(
            f"{node['id']}/summary",
            "aggregate",
            parent=node["id"],
            question=node["query"],
            answer=summary,
            evidence=[ref["id"] for ref in node["documents"]],
            calls=len(asked.calls),
            truncated=asked.truncated,
            fallback=f"{asked.problem}; only its documents go up" if asked.problem else asked.cut,
        )
        return {"tree": [{**node, "result": summary}], "trajectory": [row], "ledger": asked.calls}

    return summarizer


def aggregator(prompt: str, whole_tree: str) -> Node:
    """A node that works out one inner node's answer from its children's results and its own documents.

    In the place of a child without a result stands what its own children passed up, and its documents.

    Args:
        prompt: Name of the prompt; it is given `query`, `question`, `results` and `documents`.
        whole_tree: Name of the prompt for `backtrace="single_call"`, with the same variables.
    """

    async def aggregator(state: Branch, runtime: Runtime[Any]) -> dict[str, Any]:
        context: PruneContext = runtime.context
        node = state["node"]
        whole = context.backtrace == "single_call"
        below = passed_up(state["tree"], node)
        documents = interleave([node["documents"], *(other["documents"] for other in below if not other["result"])])
        passages = await fetch(state, [ref["id"] for ref in documents])
        step_id = f"{node['id']}/backtrace"
        asked = await ask_model(
            runtime,
            whole_tree if whole else prompt,
            Answer,
            {
                "question": quoted(state["question"]),
                "query": quoted(node["query"]),
                "results": _results(below) or "(none)",
            },
            at=step_id,
            items=Items(
                "documents", [passage_block(number, passage) for number, passage in enumerate(passages, start=1)]
            ),
            role="generator",
        )
        answer, status = read_answer(asked.value)
        row = step(
            step_id,
            "aggregate",
            parent=node["id"],
            question=node["query"],
            answer=answer,
            verdict=status,
            evidence=[ref["id"] for ref in documents],
            calls=len(asked.calls),
            truncated=asked.truncated,
            fallback=f"{asked.problem}; there is no answer" if asked.problem else asked.cut,
        )
        update: dict[str, Any] = {"tree": [{**node, "result": answer}], "trajectory": [row], "ledger": asked.calls}
        if node["id"] == "root" and asked.problem:
            update["error"] = RunError(kind="model_output", message=asked.problem, node="aggregator")
        return update

    return aggregator


def conclude() -> Node:
    """A node that makes the root's result the answer, and all documents of the tree its evidence."""

    async def conclude(state: PruneState, runtime: Runtime[Any]) -> dict[str, Any]:
        root = next(node for node in state["tree"] if node["id"] == "root")
        answer = root["result"] or ""
        status = "failed" if state.get("error") else "answered" if answer else "unanswerable"
        levels = sorted(state["tree"], key=lambda node: (node["depth"], node["id"]))
        return {"answer": answer, "status": status, "evidence": interleave([node["documents"] for node in levels])}

    return conclude


def _results(nodes: Sequence[TreeNode]) -> str:
    """What the children pass up, a line each."""
    rows = []
    for node in nodes:
        if node["kind"] == "entity" and node["result"]:
            rows.append(f"- About {quoted('; '.join(node['entities']))}: {quoted(node['result'])}")
        elif node["result"]:
            rows.append(f"- {quoted(node['query'])} {quoted(node['result'])}")
        elif node["kind"] == "query":
            rows.append(f"- {quoted(node['query'])} (no answer, see the passages)")
    return "\n".join(rows)
