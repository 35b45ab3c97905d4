"""PAR-RAG: plan, then act and review. To be read beside Algorithm 1 and Fig. 2."""

from __future__ import annotations

from collections.abc import Hashable

from langgraph.graph import END, START, StateGraph

from graphs.about import About
from nodes.generator import ReasonedAnswer, generator
from nodes.intake import intake
from nodes.kit.routing import with_context
from nodes.kit.state import QuestionInput
from nodes.parrag.actor import actor, reviser
from nodes.parrag.collector import collector, trajectory_blocks
from nodes.parrag.context import ParContext
from nodes.parrag.hop_predictor import hop_predictor
from nodes.parrag.judges import accuracy_judge, attribution_judge
from nodes.parrag.plan import current_step, is_last
from nodes.parrag.planner import planner
from nodes.parrag.refiner import refiner
from nodes.parrag.reviewer import is_accepted, reviewer
from nodes.parrag.state import ParState

ABOUT = About(
    name="PAR-RAG",
    summary="a plan; each step is answered, then reviewed",
    citation="Zhang et al., Credible Plan-Driven RAG Method for Multi-Hop Question Answering",
    published="2025-04",
    kind="method",
)


@with_context(ParContext)
def after_action(state: ParState, context: ParContext) -> list[str]:
    """Both judges look at an answer from documents at the same time; other answers stand as they are."""
    plan_step = current_step(state)
    replaced = len(plan_step["attempts"]) > 1 and context.revision == "replace"
    if "review" in context.ablate or plan_step["action"] == "Answer" or replaced:
        return [_next(state)]
    return ["accuracy", "attribution"]


@with_context(ParContext)
def after_review(state: ParState, context: ParContext) -> str:
    """One retry with sparse retrieval for an answer below the threshold."""
    attempts = current_step(state)["attempts"]
    return "rejected" if len(attempts) == 1 and not is_accepted(attempts[0], context) else _next(state)


def _next(state: ParState) -> str:
    """All steps of the plan are run (the printed loop leaves the last one out)."""
    return "all steps done" if is_last(state) else "next step"


builder = StateGraph(ParState, context_schema=ParContext, input_schema=QuestionInput)
builder.add_node("intake", intake(resets=lambda given: {"plan": [], "current": 0, "exemplars": []}))
builder.add_node("hop_predictor", hop_predictor)
builder.add_node("planner", planner)
builder.add_node("actor", actor)
builder.add_node("accuracy_judge", accuracy_judge)
builder.add_node("attribution_judge", attribution_judge)
builder.add_node("reviewer", reviewer)
builder.add_node("reviser", reviser)
builder.add_node("refiner", refiner)
builder.add_node("collector", collector)
builder.add_node(
    "generator",
    generator("parrag/answer", blocks=trajectory_blocks, output=ReasonedAnswer, role="synthesizer"),
)

AFTER_ACTION: dict[Hashable, str] = {
    "accuracy": "accuracy_judge",
    "attribution": "attribution_judge",
    "next step": "refiner",
    "all steps done": "collector",
}
builder.add_edge(START, "intake")
builder.add_edge("intake", "hop_predictor")
builder.add_edge("hop_predictor", "planner")
builder.add_edge("planner", "actor")
builder.add_conditional_edges("actor", after_action, AFTER_ACTION)
builder.add_edge("accuracy_judge", "reviewer")
builder.add_edge("attribution_judge", "reviewer")
AFTER_REVIEW: dict[Hashable, str] = {"rejected": "reviser", "next step": "refiner", "all steps done": "collector"}
builder.add_conditional_edges("reviewer", after_review, AFTER_REVIEW)
builder.add_conditional_edges("reviser", after_action, AFTER_ACTION)
builder.add_edge("refiner", "actor")
builder.add_edge("collector", "generator")
builder.add_edge("generator", END)
