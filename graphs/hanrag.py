"""HANRAG: a Revelator routes, decomposes, refines and keeps noise away. To be read beside Fig. 2 and Algorithm 1."""

from __future__ import annotations

from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.types import Overwrite, Send

from graphs.about import About
from inference.heads.revelator import Route
from nodes.analyzer import ThoughtAndSubquestions, analyzer
from nodes.chain import chain_blocks, chain_evidence
from nodes.generator import ReasonedAnswer, generator
from nodes.hanrag.chain import conclude, send_hop
from nodes.hanrag.context import HanContext
from nodes.hanrag.ending_discriminator import ending_discriminator
from nodes.hanrag.refiner import refiner
from nodes.hanrag.relevance_discriminator import relevance_discriminator, to_judge
from nodes.hanrag.routes import ROUTES, RouteChoice
from nodes.hanrag.state import AnragInput, AnragOutput, AnragState, HanInput, HanState
from nodes.hop import hop_generator, hop_retriever
from nodes.intake import intake
from nodes.kit.routing import with_context
from nodes.router import given_route, router

ABOUT = About(
    name="HANRAG",
    summary="a router with four paths, and noise-resistant retrieval",
    citation=(
        "Sun et al., HANRAG: Heuristic Accurate Noise-resistant Retrieval-Augmented Generation "
        "for Multi-hop Question Answering"
    ),
    published="2025-09",
    kind="method",
)


@with_context(HanContext)
def judge(state: AnragState, context: HanContext) -> list[Send] | str:
    """Every passage on its own, side by side."""
    if "relevance" in context.ablate or not state["candidates"]:
        return "keep all"
    return [Send("relevance_discriminator", candidates) for candidates in to_judge(state, context)]


anrag = StateGraph(AnragState, context_schema=HanContext, input_schema=AnragInput, output_schema=AnragOutput)
anrag.add_node("retriever", hop_retriever())
anrag.add_node("relevance_discriminator", relevance_discriminator)
anrag.add_node("generator", hop_generator("hanrag/answer"))

anrag.add_edge(START, "retriever")
anrag.add_conditional_edges("retriever", judge, {"judge each": "relevance_discriminator", "keep all": "generator"})
anrag.add_edge("relevance_discriminator", "generator")
anrag.add_edge("generator", END)


def fresh(given: HanState) -> dict[str, Any]:
    """The state that a run begins with."""
    return {"route": given_route(given, Route), "subquestions": [], "seed": "", "chain": Overwrite([])}


def take(state: HanState) -> Send | str:
    """The question's path."""
    return send_hop(state, state["question"], final=True) if state["route"] == "single_step" else str(state["route"])


def ask_all(state: HanState) -> list[Send]:
    """All sub-questions side by side."""
    return [send_hop(state, text, number) for number, text in enumerate(state["subquestions"], start=1)]


def ask_seed(state: HanState) -> Send:
    """The seed question, and no other."""
    return send_hop(state, state["seed"])


@with_context(HanContext)
def after_anrag(state: HanState, context: HanContext) -> str:
    """A complex question continues up to the last hop allowed."""
    last = state["route"] == "complex" and len(state["chain"]) >= context.max_steps
    return "last step" if last else str(state["route"])


def after_ending(state: HanState) -> str:
    """On to the next seed question, unless the chain is enough."""
    return "enough" if state["chain"][-1]["ended"] else "not enough"


builder = StateGraph(HanState, context_schema=HanContext, input_schema=HanInput)
builder.add_node("intake", intake(resets=fresh))
builder.add_node("router", router("hanrag/router", output=RouteChoice, falls_under=ROUTES))
builder.add_node("generator", generator("hanrag/straightforward", blocks=None))
builder.add_node("decomposer", analyzer("hanrag/decomposer", output=ThoughtAndSubquestions))
builder.add_node("refiner", refiner)
builder.add_node("anrag", anrag.compile())
builder.add_node("ending_discriminator", ending_discriminator)
builder.add_node("conclude", conclude)
builder.add_node("aggregator", generator("hanrag/aggregator", blocks=chain_blocks, evidence=chain_evidence))
builder.add_node(
    "synthesizer",
    generator(
        "hanrag/synthesizer",
        blocks=chain_blocks,
        evidence=chain_evidence,
        output=ReasonedAnswer,
        role="synthesizer",
    ),
)

builder.add_edge(START, "intake")
builder.add_edge("intake", "router")
builder.add_conditional_edges(
    "router",
    take,
    {"straightforward": "generator", "single_step": "anrag", "compound": "decomposer", "complex": "refiner"},
)
builder.add_conditional_edges("decomposer", ask_all, {"all at once": "anrag"})
builder.add_conditional_edges("refiner", ask_seed, {"seed question": "anrag"})
builder.add_conditional_edges(
    "anrag",
    after_anrag,
    {
        "single_step": "conclude",
        "compound": "aggregator",
        "complex": "ending_discriminator",
        "last step": "synthesizer",
    },
)
builder.add_conditional_edges("ending_discriminator", after_ending, {"enough": "synthesizer", "not enough": "refiner"})
builder.add_edge("generator", END)
builder.add_edge("conclude", END)
builder.add_edge("aggregator", END)
builder.add_edge("synthesizer", END)
