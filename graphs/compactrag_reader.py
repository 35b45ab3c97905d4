"""CompactRAG's offline stage for one passage: read it once into question-answer pairs. Sec. 3.1, Fig. 1, App. A."""

from __future__ import annotations

from collections.abc import Hashable

from langgraph.graph import END, START, StateGraph

from graphs.about import About
from nodes.compactrag.context import ReaderContext
from nodes.compactrag.entity_annotator import entity_annotator
from nodes.compactrag.pair_writer import coverage_repairer, pair_writer
from nodes.compactrag.passage_intake import passage_intake
from nodes.compactrag.state import ReaderInput, ReaderState
from nodes.compactrag.verbatim_checker import verbatim_checker
from nodes.kit.routing import with_context

ABOUT = About(
    name="CompactRAG's offline stage",
    summary="extracts question-answer pairs from a passage",
    citation="Yang et al., CompactRAG: Reducing LLM Calls and Token Overhead in Multi-Hop Question Answering",
    published="2026-02",
    kind="reader",
)


@with_context(ReaderContext)
def after_check(state: ReaderState, context: ReaderContext) -> str:
    """Entities that no pair mentions get one call of their own, if that is wanted."""
    repair = context.coverage_repair and state["uncovered"] and not state["repaired"] and not state["error"]
    return "not covered" if repair else "done"


builder = StateGraph(ReaderState, context_schema=ReaderContext, input_schema=ReaderInput)
builder.add_node("passage_intake", passage_intake)
builder.add_node("entity_annotator", entity_annotator)
builder.add_node("pair_writer", pair_writer)
builder.add_node("verbatim_checker", verbatim_checker)
builder.add_node("coverage_repairer", coverage_repairer)

AFTER_CHECK: dict[Hashable, str] = {"not covered": "coverage_repairer", "done": END}
builder.add_edge(START, "passage_intake")
builder.add_edge("passage_intake", "entity_annotator")
builder.add_edge("entity_annotator", "pair_writer")
builder.add_edge("pair_writer", "verbatim_checker")
builder.add_conditional_edges("verbatim_checker", after_check, AFTER_CHECK)
builder.add_edge("coverage_repairer", "verbatim_checker")
