"""Adaptive Retrieval (Mallen et al. 2023): retrieval where the model can't be expected to know. See its Sec. 5."""

from __future__ import annotations

from collections.abc import Hashable

from langgraph.graph import END, START, StateGraph

from graphs.about import About
from nodes.adaptive_retrieval.context import AdaptiveRetrievalContext
from nodes.adaptive_retrieval.popularity import popularity
from nodes.adaptive_retrieval.state import AdaptiveRetrievalState
from nodes.generator import generator
from nodes.intake import intake
from nodes.kit.state import QuestionInput
from nodes.retriever import retriever

ABOUT = About(
    name="Adaptive Retrieval",
    summary="a search for rare entities, none for popular ones",
    citation=(
        "Mallen et al., When Not to Trust Language Models: Investigating Effectiveness of Parametric and "
        "Non-Parametric Memories"
    ),
    published="2022-12",
    kind="baseline",
)


def take(state: AdaptiveRetrievalState) -> str:
    """With or without retrieval."""
    return "rare" if state["retrieves"] else "popular"


builder = StateGraph(AdaptiveRetrievalState, context_schema=AdaptiveRetrievalContext, input_schema=QuestionInput)
builder.add_node("intake", intake(resets=lambda given: {"retrieves": True}))
builder.add_node("popularity", popularity)
builder.add_node("generator", generator("no_retrieval/answer", blocks=None))
builder.add_node("retriever", retriever(into="evidence"))
builder.add_node("reader", generator("standard_rag/answer"))

TAKE: dict[Hashable, str] = {"rare": "retriever", "popular": "generator"}
builder.add_edge(START, "intake")
builder.add_edge("intake", "popularity")
builder.add_conditional_edges("popularity", take, TAKE)
builder.add_edge("retriever", "reader")
builder.add_edge("generator", END)
builder.add_edge("reader", END)
