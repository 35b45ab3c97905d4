"""IRCoT (Trivedi et al. 2023): chain of thought and retrieval in turn. To be read beside its Fig. 2 and Sec. 3.1."""

from __future__ import annotations

from collections.abc import Hashable

from langgraph.graph import END, START, StateGraph

from graphs.about import About
from nodes.baselines.context import IrcotContext
from nodes.baselines.reasoner import reasoner, round_id
from nodes.baselines.state import IrcotState
from nodes.generator import ReasonedAnswer, generator
from nodes.intake import intake
from nodes.kit.routing import with_context
from nodes.kit.state import QuestionInput
from nodes.retriever import retriever

ABOUT = About(
    name="IRCoT",
    summary="a search after every sentence of a chain of thought",
    citation=(
        "Trivedi et al., Interleaving Retrieval with Chain-of-Thought Reasoning for "
        "Knowledge-Intensive Multi-Step Questions"
    ),
    published="2022-12",
    kind="baseline",
)


def fresh(given: IrcotState) -> IrcotState:
    """The state that a run begins with."""
    return {"thoughts": [], "concluded": False}


def query(state: IrcotState) -> list[str]:
    """The latest sentence, and before there is one the question."""
    return state["thoughts"][-1:] or [state["question"]]


def goes_on(state: IrcotState, max_steps: int) -> str:
    """Search with the latest sentence, until one says the answer or there are enough of them."""
    ends = state["concluded"] or len(state["thoughts"]) >= max_steps
    return "concluded" if ends else "next search"


@with_context(IrcotContext)
def after_reasoner(state: IrcotState, context: IrcotContext) -> str:
    """On with the chain of thought, or to its end."""
    return goes_on(state, context.max_steps)


builder = StateGraph(IrcotState, context_schema=IrcotContext, input_schema=QuestionInput)
builder.add_node("intake", intake(resets=fresh))
builder.add_node(
    "retriever",
    retriever(
        into="evidence",
        queries=query,
        limit=lambda context: int(context.max_passages),
        at=round_id,
        ranks_given=lambda context: True,
        grows=True,
    ),
)
builder.add_node("reasoner", reasoner)
builder.add_node("generator", generator("ircot/answer", output=ReasonedAnswer))

AFTER_REASONER: dict[Hashable, str] = {"next search": "retriever", "concluded": "generator"}
builder.add_edge(START, "intake")
builder.add_edge("intake", "retriever")
builder.add_edge("retriever", "reasoner")
builder.add_conditional_edges("reasoner", after_reasoner, AFTER_REASONER)
builder.add_edge("generator", END)
