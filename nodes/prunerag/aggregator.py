"""Aggregator: an inner node's answer from what its children pass up (PruneRAG, Sec. 3.3, case ii)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langgraph.runtime import Runtime

from nodes.generator import Answer, ReasonedAnswer, read_answer
from nodes.kit.model import Items, ask_model
from nodes.kit.passages import fetch, interleave
from nodes.kit.rendering import passage_blocks, quoted
from nodes.kit.steps import logged
from nodes.prunerag.context import PruneContext
from nodes.prunerag.state import Branch, TreeNode
from nodes.prunerag.tree import children, passed_up
from prompts.parsing import COMMON


async def aggregator(state: Branch, runtime: Runtime[PruneContext]) -> dict[str, Any]:
    """Work out one inner node's answer from its children's results and its own documents.

    A child without a result is replaced by its own children's results, and its documents. With
    `backtrace="single_call"` the root answers from the whole tree, nested, and from the documents of answered, entity
    and deepest nodes, as the released code does.
    """
    node = state["node"]
    whole = runtime.context.backtrace == "single_call"
    if whole:
        results, sources = _nested(state["tree"], node), _released_sources(state["tree"])
    else:
        below = passed_up(state["tree"], node)
        results, sources = _results(below), [node, *(other for other in below if not other["result"])]
    ids = [ref["id"] for ref in interleave([source["documents"] for source in sources])]
    asked = await ask_model(
        runtime,
        "prunerag/single_call" if whole else "prunerag/aggregator",
        Answer if whole else ReasonedAnswer,
        {
            "question": quoted(state["question"]),
            "query": quoted(node["query"]),
            "results": results or "(none)",
            # An inner node may find no answer even where the run must give one (`abstain`).
            **({} if node["id"] == "root" else COMMON),
        },
        at=f"{node['id']}/backtrace",
        items=Items("documents", passage_blocks(await fetch(state, ids))),
        role="generator",
    )
    final = read_answer(asked.value, runtime.context, final=node["id"] == "root")
    row = asked.step(
        "aggregate",
        parent=node["id"],
        question=node["query"],
        answer=final["answer"],
        verdict=final["status"],
        evidence=ids,
        instead="there is no answer",
    )
    # Inner nodes are worked on side by side: only the root, which comes last and alone, fails the run.
    ended = {"error": asked.error, "abstention": final["abstention"]} if node["id"] == "root" else {}
    return {"tree": [{**node, "result": final["answer"]}], **ended, **logged(row, asked)}


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


def _nested(tree: Sequence[TreeNode], node: TreeNode, depth: int = 0) -> str:
    """A node and all below it, a line each, indented by depth; answers only where they were accepted."""
    name = "; ".join(node["entities"]) if node["kind"] == "entity" else node["query"]
    answer = f" {quoted(node['answer'])}" if node["verdict"] == "accepted" else ""
    lines = [f"{'  ' * depth}- {quoted(name)}{answer}"]
    return "\n".join([*lines, *(_nested(tree, child, depth + 1) for child in children(tree, node))])


def _released_sources(tree: Sequence[TreeNode]) -> list[TreeNode]:
    """The nodes whose documents the released code shows: answered ones, entity nodes, those of the deepest level."""
    deepest = max(node["depth"] for node in tree)
    return [
        node for node in tree if node["verdict"] == "accepted" or node["kind"] == "entity" or node["depth"] == deepest
    ]
