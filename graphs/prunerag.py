"""PruneRAG: a confidence-guided query decomposition tree. To be read beside Algorithm 1 and Fig. 2."""

from __future__ import annotations

from langgraph.graph import END, START, StateGraph
from langgraph.types import Overwrite, Send

from graphs.about import About
from nodes.intake import intake
from nodes.kit.routing import with_context
from nodes.kit.state import QuestionInput
from nodes.prunerag.aggregator import aggregator
from nodes.prunerag.backtracer import backtracer, conclude, next_to_resolve
from nodes.prunerag.brancher import brancher
from nodes.prunerag.confidence_gate import confidence_gate, human_gate, judged
from nodes.prunerag.context import PruneContext
from nodes.prunerag.decomposer import decomposer
from nodes.prunerag.entity_retriever import entity_retriever
from nodes.prunerag.extractor import extractor
from nodes.prunerag.queue import queue
from nodes.prunerag.state import PruneState
from nodes.prunerag.summarizer import summarizer
from nodes.prunerag.tree import send

ABOUT = About(
    name="PruneRAG",
    summary="a decomposition tree, pruned by answer confidence",
    citation=(
        "Jiao et al., PruneRAG: Confidence-Guided Query Decomposition Trees for Efficient "
        "Retrieval-Augmented Generation"
    ),
    published="2026-01",
    kind="method",
)


def expand(state: PruneState) -> list[Send] | str:
    """Every node of the level on its own; without one the tree is complete."""
    level = [node for node in state["tree"] if node["id"] in state["frontier"]]
    if not level:
        return "the tree is complete"
    return [send("decomposer" if node["kind"] == "query" else "entity_retriever", state, node) for node in level]


def ask_again(state: PruneState) -> list[Send] | str:
    """A node whose answer was rejected has to split or abstract, in the same level."""
    rejected = [node for node in state["tree"] if node["verdict"] == "rejected"]
    return [send("decomposer_again", state, node, barred=True) for node in rejected] or "none rejected"


@with_context(PruneContext)
def after_gate(state: PruneState, context: PruneContext) -> list[Send] | str:
    """Where that is wanted, a person looks at the answers of the level, side by side."""
    answers = judged(state) if context.review == "human" else []
    return [send("human_gate", state, node) for node in answers] or ask_again(state)


def find_entities(state: PruneState) -> list[Send] | str:
    """A sub-query that repeats another has become an entity node and has no entities yet."""
    bare = [node for node in state["tree"] if node["kind"] == "entity" and node["verdict"] == "open"]
    return [send("extractor", state, node) for node in bare if not node["entities"]] or "next level"


@with_context(PruneContext)
def resolve(state: PruneState, context: PruneContext) -> list[Send] | str:
    """Step 3: whatever has all below it resolved, deepest first."""
    ready = next_to_resolve(state["tree"], context)
    return [send("summarizer" if node["kind"] == "entity" else "aggregator", state, node) for node in ready] or "done"


builder = StateGraph(PruneState, context_schema=PruneContext, input_schema=QuestionInput)
builder.add_node("intake", intake(resets=lambda given: {"tree": Overwrite([]), "frontier": []}))
builder.add_node("queue", queue)
builder.add_node("decomposer", decomposer)
builder.add_node("entity_retriever", entity_retriever)
builder.add_node("confidence_gate", confidence_gate)
builder.add_node("human_gate", human_gate)
builder.add_node("decomposer_again", decomposer)
builder.add_node("brancher", brancher)
builder.add_node("extractor", extractor)
builder.add_node("backtracer", backtracer)
builder.add_node("summarizer", summarizer)
builder.add_node("aggregator", aggregator)
builder.add_node("conclude", conclude)

builder.add_edge(START, "intake")
builder.add_edge("intake", "queue")
builder.add_conditional_edges(
    "queue",
    expand,
    {"query nodes": "decomposer", "entity nodes": "entity_retriever", "the tree is complete": "backtracer"},
)
builder.add_edge("decomposer", "confidence_gate")
builder.add_edge("entity_retriever", "confidence_gate")
builder.add_conditional_edges(
    "confidence_gate",
    after_gate,
    {"review": "human_gate", "rejected": "decomposer_again", "none rejected": "brancher"},
)
builder.add_edge("human_gate", "confidence_gate")
builder.add_edge("decomposer_again", "brancher")
builder.add_conditional_edges("brancher", find_entities, {"repeats": "extractor", "next level": "queue"})
builder.add_edge("extractor", "queue")
builder.add_conditional_edges(
    "backtracer", resolve, {"entity nodes": "summarizer", "inner nodes": "aggregator", "done": "conclude"}
)
builder.add_edge("summarizer", "backtracer")
builder.add_edge("aggregator", "backtracer")
builder.add_edge("conclude", END)
