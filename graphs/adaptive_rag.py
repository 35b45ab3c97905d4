"""Adaptive-RAG (Jeong et al. 2024): as much retrieval as the question is complex. To be read beside its Fig. 2."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from langgraph.graph import END, START, StateGraph

from graphs import ircot
from graphs.about import About
from nodes.baselines.complexity import ComplexityChoice
from nodes.baselines.context import COMPLEXITY, AdaptiveContext, Complexity
from nodes.baselines.reasoner import reasoner, round_id
from nodes.baselines.state import AdaptiveInput, AdaptiveState
from nodes.generator import ReasonedAnswer, generator
from nodes.intake import intake
from nodes.kit.routing import with_context
from nodes.retriever import retriever
from nodes.router import given_route, router

ABOUT = About(
    name="Adaptive-RAG",
    summary="no search, one search, or IRCoT, depending on the question's complexity",
    citation=(
        "Jeong et al., Adaptive-RAG: Learning to Adapt Retrieval-Augmented Large Language Models "
        "through Question Complexity"
    ),
    published="2024-03",
    kind="baseline",
)


def fresh(given: AdaptiveState) -> dict[str, Any]:
    """The state that a run begins with."""
    return {**ircot.fresh(given), "route": given_route(given, Complexity)}


def take(state: AdaptiveState) -> str:
    """The question's path: A, B or C."""
    return str(state["route"])


@with_context(AdaptiveContext)
def after_reasoner(state: AdaptiveState, context: AdaptiveContext) -> str:
    """On with the chain of thought, or to its end."""
    return ircot.goes_on(state, context.max_steps)


builder = StateGraph(AdaptiveState, context_schema=AdaptiveContext, input_schema=AdaptiveInput)
builder.add_node("intake", intake(resets=fresh))
builder.add_node("router", router("adaptive_rag/router", output=ComplexityChoice, falls_under=COMPLEXITY))
builder.add_node("generator", generator("no_retrieval/answer", blocks=None))
builder.add_node(
    "retriever",
    retriever(
        into="evidence",
        queries=ircot.query,
        limit=lambda context: int(context.max_passages),
        at=round_id,
        ranks_given=lambda context: True,
        grows=True,
    ),
)
builder.add_node("single_step_retriever", retriever(into="evidence"))
builder.add_node("single_step_reader", generator("standard_rag/answer"))
builder.add_node("reasoner", reasoner)
builder.add_node("multi_step_reader", generator("ircot/answer", output=ReasonedAnswer))

TAKE: dict[Hashable, str] = {
    "no_retrieval": "generator",
    "single_step": "single_step_retriever",
    "multi_step": "retriever",
}
AFTER_REASONER: dict[Hashable, str] = {"next search": "retriever", "concluded": "multi_step_reader"}
builder.add_edge(START, "intake")
builder.add_edge("intake", "router")
builder.add_conditional_edges("router", take, TAKE)
builder.add_edge("single_step_retriever", "single_step_reader")
builder.add_edge("retriever", "reasoner")
builder.add_conditional_edges("reasoner", after_reasoner, AFTER_REASONER)
builder.add_edge("generator", END)
builder.add_edge("single_step_reader", END)
builder.add_edge("multi_step_reader", END)
