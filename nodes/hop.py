"""A hop: retrieve passages for one question and answer it from them (HANRAG, Alg. 1; Self-Ask)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from nodes.chain import Hop
from nodes.generator import Answer
from nodes.kit.abstention import is_abstention
from nodes.kit.model import Asked, Items, ask_model
from nodes.kit.passages import fetch
from nodes.kit.place import node_name
from nodes.kit.rendering import passage_blocks, plain, quoted
from nodes.kit.state import Node, PassageRef
from nodes.kit.steps import logged
from nodes.retriever import retriever
from prompts.parsing import COMMON


def hop_retriever() -> Node:
    """A node that searches for the hop's question, `seed`; the results are its `candidates`."""
    return retriever(
        into="candidates",
        queries=lambda state: [state["seed"]],
        at=lambda state: str(state["at"]),
        ranks_given=lambda context: True,
    )


def hop_generator(prompt: str) -> Node:
    """A node that answers the hop's question from the passages judged relevant, which ends the hop.

    If none is relevant, the top one is kept and the hop is flagged; without judgements, all are kept. If none was
    found, the model is not called. An answer that can't be parsed is empty, and the hop records why.

    Args:
        prompt: Name of the prompt; it is given `question` and `evidence`.
    """

    async def generator(state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        kept, flagged = _kept(state)
        at = f"{state['at']}/generator"
        asked: Asked[Answer] = Asked(at=at, node=node_name(), value=None)
        if kept:
            blocks = passage_blocks(await fetch(state, [ref["id"] for ref in kept]))
            # A hop may have no answer even where the run must give one (`abstain`).
            question = {"question": quoted(state["seed"]), **({} if state.get("final") else COMMON)}
            items = Items("evidence", blocks)
            asked = await ask_model(runtime, prompt, Answer, question, at=at, items=items, role="generator")
        answer = plain(asked.value.answer) if asked.value else ""
        words = not state.get("final") or runtime.context.abstain == "on"
        hop = Hop(
            id=state["at"],
            question=state["seed"],
            retrieved=state["candidates"],
            relevance=state.get("judged", []),
            kept=[ref["id"] for ref in kept],
            flagged=flagged,
            answer="" if is_abstention(answer, words=words) else answer,
            problem=asked.problem,
            ending=None,
            ended=False,
        )
        row = asked.step(
            "answer",
            parent=state["at"],
            question=state["seed"],
            answer=hop["answer"],
            verdict="none judged relevant, the top passage was kept" if flagged else "" if kept else "nothing found",
            evidence=hop["kept"],
            instead="there is no answer",
        )
        return {"chain": [hop], **logged(row, asked)}

    return generator


def _kept(state: Any) -> tuple[list[PassageRef], bool]:
    """The passages to answer from, best first, and whether the top one was kept because none is relevant."""
    found = state["candidates"]
    judged = {row["id"]: row["relevant"] for row in state.get("judged", [])}
    kept = [ref for ref in found if judged.get(ref["id"], not judged)]
    return kept or found[:1], bool(found and not kept)
