"""The model alone, without a search: what it knows by heart."""

from __future__ import annotations

from langgraph.graph import END, START, StateGraph

from graphs.about import About
from nodes.baselines.context import NoRetrievalContext
from nodes.generator import generator
from nodes.intake import intake
from nodes.kit.state import QuestionInput, State

ABOUT = About(
    name="No retrieval",
    summary="the model alone, without a search",
    citation="",
    published="",
    kind="baseline",
)

builder = StateGraph(State, context_schema=NoRetrievalContext, input_schema=QuestionInput)
builder.add_node("intake", intake())
builder.add_node("generator", generator("no_retrieval/answer", blocks=None))

builder.add_edge(START, "intake")
builder.add_edge("intake", "generator")
builder.add_edge("generator", END)
