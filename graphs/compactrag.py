"""CompactRAG, online: decompose, resolve on small local models, synthesise. To be read beside Sec. 3.3 and Fig. 2."""

from __future__ import annotations

from collections.abc import Hashable

from langgraph.graph import END, START, StateGraph

from graphs.about import About
from nodes.compactrag.answer_extractor import answer_extractor
from nodes.compactrag.context import CompactContext
from nodes.compactrag.dag import in_wave
from nodes.compactrag.pair_collector import pair_blocks, pair_collector, resolved, synthesizer_prompt
from nodes.compactrag.pair_retriever import pair_retriever
from nodes.compactrag.question_decomposer import question_decomposer
from nodes.compactrag.rewriter import rewriter
from nodes.compactrag.state import CompactState
from nodes.generator import ReasonedAnswer, generator
from nodes.intake import intake
from nodes.kit.state import QuestionInput

ABOUT = About(
    name="CompactRAG",
    summary="two calls per question, over question-answer pairs extracted beforehand",
    citation="Yang et al., CompactRAG: Reducing LLM Calls and Token Overhead in Multi-Hop Question Answering",
    published="2026-02",
    kind="method",
)


def after_wave(state: CompactState) -> str:
    """Sub-questions whose answers are all there make up the next wave."""
    return "next wave" if in_wave(state["plan"], state["wave"]) else "all resolved"


builder = StateGraph(CompactState, context_schema=CompactContext, input_schema=QuestionInput)
builder.add_node("intake", intake(resets=lambda given: {"plan": [], "wave": 0}))
builder.add_node("decomposer", question_decomposer)
builder.add_node("rewriter", rewriter)
builder.add_node("retriever", pair_retriever)
builder.add_node("extractor", answer_extractor)
builder.add_node("collector", pair_collector)
builder.add_node(
    "generator",
    generator(synthesizer_prompt, blocks=pair_blocks, values=resolved, output=ReasonedAnswer, role="synthesizer"),
)

AFTER_WAVE: dict[Hashable, str] = {"next wave": "rewriter", "all resolved": "collector"}
builder.add_edge(START, "intake")
builder.add_edge("intake", "decomposer")
builder.add_edge("decomposer", "rewriter")
builder.add_edge("rewriter", "retriever")
builder.add_edge("retriever", "extractor")
builder.add_conditional_edges("extractor", after_wave, AFTER_WAVE)
builder.add_edge("collector", "generator")
builder.add_edge("generator", END)
