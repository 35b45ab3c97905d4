"""ReAct (Yao et al. 2023): thought, action and observation in turn, until the action is to finish. See its Fig. 1."""

from __future__ import annotations

from collections.abc import Hashable

from langgraph.graph import END, START, StateGraph

from graphs.about import About
from nodes.baselines.agent import agent, turn_id
from nodes.baselines.context import ReactContext
from nodes.baselines.lookup import lookup
from nodes.baselines.state import ReactState
from nodes.intake import intake
from nodes.kit.state import QuestionInput
from nodes.retriever import retriever

ABOUT = About(
    name="ReAct",
    summary="alternating thoughts, actions (search, lookup, finish) and observations",
    citation="Yao et al., ReAct: Synergizing Reasoning and Acting in Language Models",
    published="2022-10",
    kind="baseline",
)


def act(state: ReactState) -> str:
    """What the agent chose to do."""
    action = state["turns"][-1]["action"]
    return "look up" if action == "lookup" else action


builder = StateGraph(ReactState, context_schema=ReactContext, input_schema=QuestionInput)
builder.add_node("intake", intake(resets=lambda given: {"turns": [], "page": []}))
builder.add_node("agent", agent)
builder.add_node(
    "retriever",
    retriever(
        into="page",
        queries=lambda state: [state["turns"][-1]["argument"]],
        at=turn_id,
        ranks_given=lambda context: True,
    ),
)
builder.add_node("lookup", lookup)

ACT: dict[Hashable, str] = {"search": "retriever", "look up": "lookup", "finish": END}
builder.add_edge(START, "intake")
builder.add_edge("intake", "agent")
builder.add_conditional_edges("agent", act, ACT)
builder.add_edge("retriever", "agent")
builder.add_edge("lookup", "agent")
