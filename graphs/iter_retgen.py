"""Iter-RetGen (Shao et al. 2023): what one iteration writes says what the next one searches for. See its Sec. 3."""

from __future__ import annotations

from collections.abc import Hashable

from langgraph.graph import END, START, StateGraph

from graphs.about import About
from nodes.baselines.context import IterRetGenContext
from nodes.baselines.drafter import drafter, iteration_id
from nodes.baselines.state import IterRetGenState
from nodes.intake import intake
from nodes.kit.routing import with_context
from nodes.kit.state import QuestionInput
from nodes.retriever import retriever

ABOUT = About(
    name="Iter-RetGen",
    summary="rounds of search and answer; each search uses the previous answer",
    citation=(
        "Shao et al., Enhancing Retrieval-Augmented Large Language Models with Iterative Retrieval-Generation Synergy"
    ),
    published="2023-05",
    kind="baseline",
)


def query(state: IterRetGenState) -> list[str]:
    """The question, and what was written of it (Eq. 2)."""
    return [f"{state['question']} {state['draft']}".strip()]


@with_context(IterRetGenContext)
def after_drafter(state: IterRetGenState, context: IterRetGenContext) -> str:
    """All iterations are made; the last one's answer counts."""
    return "next iteration" if state["iteration"] < context.iterations else "done"


builder = StateGraph(IterRetGenState, context_schema=IterRetGenContext, input_schema=QuestionInput)
builder.add_node("intake", intake(resets=lambda given: {"iteration": 0, "draft": ""}))
builder.add_node(
    "retriever", retriever(into="evidence", queries=query, at=iteration_id, ranks_given=lambda context: True)
)
builder.add_node("drafter", drafter)

AFTER_DRAFTER: dict[Hashable, str] = {"next iteration": "retriever", "done": END}
builder.add_edge(START, "intake")
builder.add_edge("intake", "retriever")
builder.add_edge("retriever", "drafter")
builder.add_conditional_edges("drafter", after_drafter, AFTER_DRAFTER)
