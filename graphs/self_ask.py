"""Self-Ask (Press et al. 2023): follow-up questions with intermediate answers, until none is needed any more."""

from __future__ import annotations

from collections.abc import Hashable

from langgraph.graph import END, START, StateGraph
from langgraph.types import Overwrite

from graphs.about import About
from nodes.baselines.asker import asker
from nodes.baselines.context import SelfAskContext
from nodes.baselines.state import SelfAskState
from nodes.hop import hop_generator, hop_retriever
from nodes.intake import intake
from nodes.kit.state import QuestionInput

ABOUT = About(
    name="Self-Ask",
    summary="follow-up questions, each looked up and answered",
    citation="Press et al., Measuring and Narrowing the Compositionality Gap in Language Models",
    published="2022-10",
    kind="baseline",
)


def after_asker(state: SelfAskState) -> str:
    """A follow-up question is looked up, a repeated one is not; an answer ends the run."""
    if state["repeated"]:
        return "asked before"
    return "follow-up question" if state["seed"] else "final answer"


builder = StateGraph(SelfAskState, context_schema=SelfAskContext, input_schema=QuestionInput)
builder.add_node(
    "intake", intake(resets=lambda given: {"at": "", "seed": "", "repeated": False, "chain": Overwrite([])})
)
builder.add_node("asker", asker)
builder.add_node("retriever", hop_retriever())
builder.add_node("generator", hop_generator("self_ask/intermediate"))

AFTER_ASKER: dict[Hashable, str] = {
    "follow-up question": "retriever",
    "asked before": "asker",
    "final answer": END,
}
builder.add_edge(START, "intake")
builder.add_edge("intake", "asker")
builder.add_conditional_edges("asker", after_asker, AFTER_ASKER)
builder.add_edge("retriever", "generator")
builder.add_edge("generator", "asker")
