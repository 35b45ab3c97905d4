"""Standard RAG: one search with the question, one answer from what it finds."""

from __future__ import annotations

from langgraph.graph import END, START, StateGraph

from graphs.about import About
from nodes.baselines.context import StandardRagContext
from nodes.generator import generator
from nodes.intake import intake
from nodes.kit.state import QuestionInput, State
from nodes.retriever import retriever

ABOUT = About(
    name="Standard RAG",
    summary="one search, one answer",
    citation="",
    published="",
    kind="baseline",
)

builder = StateGraph(State, context_schema=StandardRagContext, input_schema=QuestionInput)
builder.add_node("intake", intake())
builder.add_node("retriever", retriever(into="evidence"))
builder.add_node("generator", generator("standard_rag/answer"))

builder.add_edge(START, "intake")
builder.add_edge("intake", "retriever")
builder.add_edge("retriever", "generator")
builder.add_edge("generator", END)
