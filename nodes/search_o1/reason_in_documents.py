"""Reason-in-Documents: what the passages found say that the reasoning needs (Search-o1, Sec. 3.4)."""

from __future__ import annotations

from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel

from inference.limits import Limited, LongText
from nodes.kit.abstention import is_abstention
from nodes.kit.model import Asked, Items, ask_model
from nodes.kit.passages import fetch
from nodes.kit.place import node_name
from nodes.kit.rendering import passage_blocks, plain, quoted
from nodes.kit.steps import logged
from nodes.search_o1.context import SearchO1Context
from nodes.search_o1.reasoner import NOTHING, chain
from nodes.search_o1.state import SearchO1State, Turn, turn_id

LONGEST = 4000
"""Characters of earlier reasoning that are shown: the passages need the rest of the model's context."""


class RefinedKnowledge(BaseModel):
    """Output of Reason-in-Documents: the analysis of the passages (Eq. 4), and what it concludes (Eq. 5)."""

    analysis: Annotated[str, Limited(600)]
    information: LongText


async def reason_in_documents(state: SearchO1State, runtime: Runtime[SearchO1Context]) -> dict[str, Any]:
    """Insert into the reasoning the useful information of the latest search.

    A separate call reads the reasoning so far, the query and the passages, and analyses them first; neither passages
    nor analysis enter the reasoning. If nothing was found, or without Reason-in-Documents, there is no call. A reply
    that can't be parsed counts as nothing helpful, and the step records it.
    """
    *turns, turn = state["turns"]
    found, at = state["page"], f"{turn_id(state)}/reason_in_documents"
    if "reason_in_documents" in runtime.context.ablate:
        return {"turns": [*turns, {**turn, "passages": found}]}
    asked: Asked[RefinedKnowledge] = Asked(at=at, node=node_name(), value=None)
    if found:
        passages = passage_blocks(await fetch(state, [ref["id"] for ref in found]))
        asked = await ask_model(
            runtime,
            "search_o1/reason_in_documents",
            RefinedKnowledge,
            {
                "reasoning": "\n".join([*_before(turns), f"{len(turns) + 1}. {quoted(turn['reasoning'])}"]),
                "query": quoted(turn["query"]),
            },
            at=at,
            items=Items("evidence", passages),
        )
    said = plain(asked.value.information) if asked.value else ""
    information = NOTHING if is_abstention(said) else said
    row = asked.step(
        "answer",
        parent=turn_id(state),
        question=turn["query"],
        answer="" if information == NOTHING else information,
        verdict="nothing found" if not found else "nothing helpful" if information == NOTHING else "",
        evidence=[ref["id"] for ref in found],
        instead="it counts as nothing helpful",
    )
    return {"turns": [*turns, {**turn, "passages": found, "information": information}], **logged(row, asked)}


def _before(turns: list[Turn]) -> list[str]:
    """The reasoning of earlier turns; what is too long is left out from the second turn on."""
    reasoning, count, length = chain(turns), 0, 0
    while count < len(turns) and (length := length + len(reasoning.blocks[count])) <= LONGEST:
        count += 1
    return [*reasoning.shown(count).values()] if count else []
