"""PRISM (Nahid and Rafiei): agentic retrieval with a precision-recall loop. To be read beside Fig. 1 and Sec. 2."""

from __future__ import annotations

from langgraph.graph import END, START, StateGraph

from graphs.about import About
from nodes.analyzer import analyzer
from nodes.generator import generator
from nodes.intake import intake
from nodes.kit.routing import with_context
from nodes.kit.state import QuestionInput, as_refs
from nodes.prism.adder import adder
from nodes.prism.context import PrismContext
from nodes.prism.merger import merger
from nodes.prism.selector import guess, selector, setwise
from nodes.prism.state import PrismState
from nodes.retriever import retriever

ABOUT = About(
    name="PRISM",
    summary="precision and recall in a loop over evidence sentences",
    citation="Nahid and Rafiei, PRISM: Agentic Retrieval with LLMs for Multi-Hop Question Answering",
    published="2025-10",
    kind="method",
)


def fresh(given: PrismState) -> PrismState:
    """The state that a run begins with."""
    empty: PrismState = {"subquestions": [], "pool": [], "selected": [], "before": [], "kept": [], "added": []}
    return {**empty, "selected_text": [], "iteration": 0, "oracle": given.get("gold")}


@with_context(PrismContext)
def enter(state: PrismState, context: PrismContext) -> str:
    """The conditions that PRISM is compared with take a shorter way."""
    if context.condition == "oracle_context":
        return "gold"
    decomposes = context.condition == "prism" and "analyzer" not in context.ablate
    return "decompose" if decomposes else "search"


@with_context(PrismContext)
def select(state: PrismState, context: PrismContext) -> str:
    """Who looks at the candidates first."""
    if not state["pool"] or context.condition in ("full_context", "oner"):
        return "take all"
    if context.condition == "setwise":
        return "pick a set"
    return "guess first" if context.adder_first else "select"


@with_context(PrismContext)
def after_selector(state: PrismState, context: PrismContext) -> str:
    """The Adder's turn; in the order of the paper's example the Selector ends a round."""
    if "loop" in context.ablate:
        return "done"
    return "add" if not context.adder_first or _goes_on(state, context) else "done"


@with_context(PrismContext)
def after_adder(state: PrismState, context: PrismContext) -> str:
    """The Selector's turn; by default the Adder ends a round."""
    return "prune" if context.adder_first or _goes_on(state, context) else "done"


def _goes_on(state: PrismState, context: PrismContext) -> bool:
    """At most N rounds, and no further one when the last changed nothing (Sec. 2.4)."""
    changed = set(as_refs(state["selected"])) != set(as_refs(state["before"]))
    return changed and state["iteration"] < context.max_iterations


def queries(state: PrismState) -> list[str]:
    """The question and its sub-questions."""
    return [state["question"], *state.get("subquestions", [])]


builder = StateGraph(PrismState, context_schema=PrismContext, input_schema=QuestionInput)
builder.add_node("intake", intake(resets=fresh))
builder.add_node("analyzer", analyzer("prism/analyzer"))
builder.add_node(
    "retriever",
    retriever(
        queries=queries,
        mode=lambda context: "sparse" if context.condition == "oner" else None,
        # Without sub-questions the question alone fills the pool: the ablation changes the queries, not its size.
        alone=lambda context: context.top_k if context.condition == "oner" else context.pool_size,
        limit=lambda context: context.top_k if context.condition == "oner" else context.pool_size,
        ranks_given=lambda context: context.condition == "oner",
    ),
)
builder.add_node("guess", guess)
builder.add_node("selector", selector)
builder.add_node("adder", adder)
builder.add_node("setwise", setwise)
builder.add_node("merger", merger)
builder.add_node("generator", generator("prism/answer"))

builder.add_edge(START, "intake")
builder.add_conditional_edges("intake", enter, {"decompose": "analyzer", "search": "retriever", "gold": "merger"})
builder.add_edge("analyzer", "retriever")
builder.add_conditional_edges(
    "retriever", select, {"select": "selector", "guess first": "guess", "pick a set": "setwise", "take all": "merger"}
)
builder.add_edge("guess", "adder")
builder.add_conditional_edges("selector", after_selector, {"add": "adder", "done": "merger"})
builder.add_conditional_edges("adder", after_adder, {"prune": "selector", "done": "merger"})
builder.add_edge("setwise", "merger")
builder.add_edge("merger", "generator")
builder.add_edge("generator", END)
