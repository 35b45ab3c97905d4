"""Search-o1 (Li et al. 2025): searches within a chain of reasoning. To be read beside its Fig. 2 and Alg. 1."""

from __future__ import annotations

from collections.abc import Hashable

from langgraph.graph import END, START, StateGraph

from graphs.about import About
from nodes.intake import intake
from nodes.kit.state import QuestionInput
from nodes.retriever import retriever
from nodes.search_o1.context import SearchO1Context
from nodes.search_o1.reason_in_documents import reason_in_documents
from nodes.search_o1.reasoner import reasoner
from nodes.search_o1.state import SearchO1State, turn_id

ABOUT = About(
    name="Search-o1",
    summary="reasoning with searches; a separate call distils the passages before they enter it",
    citation="Li et al., Search-o1: Agentic Search-Enhanced Large Reasoning Models",
    published="2025-01",
    kind="baseline",
)


def after_reasoner(state: SearchO1State) -> str:
    """Search for the query, unless it was searched for before; without a query the answer stands."""
    turn = state["turns"][-1]
    if not turn["query"]:
        return "answer"
    return "repeated query" if turn["information"] else "search"


builder = StateGraph(SearchO1State, context_schema=SearchO1Context, input_schema=QuestionInput)
builder.add_node("intake", intake(resets=lambda given: {"turns": [], "page": []}))
builder.add_node("reasoner", reasoner)
builder.add_node(
    "retriever",
    retriever(
        into="page",
        queries=lambda state: [state["turns"][-1]["query"]],
        at=turn_id,
        ranks_given=lambda context: True,
    ),
)
builder.add_node("reason_in_documents", reason_in_documents)

AFTER_REASONER: dict[Hashable, str] = {"search": "retriever", "repeated query": "reasoner", "answer": END}
builder.add_edge(START, "intake")
builder.add_edge("intake", "reasoner")
builder.add_conditional_edges("reasoner", after_reasoner, AFTER_REASONER)
builder.add_edge("retriever", "reason_in_documents")
builder.add_edge("reason_in_documents", "reasoner")
