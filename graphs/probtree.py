"""ProbTree (Cao et al. 2023): a probabilistic tree of thought. To be read beside its Figs. 1 and 2."""

from __future__ import annotations

from collections.abc import Hashable

from langgraph.graph import END, START, StateGraph
from langgraph.types import Overwrite, Send

from graphs.about import About
from nodes.intake import intake
from nodes.kit.routing import with_context
from nodes.kit.state import QuestionInput
from nodes.probtree.answering import child_aggregating, chooser, closed_book, open_book
from nodes.probtree.context import ProbTreeContext
from nodes.probtree.decomposer import decomposer
from nodes.probtree.state import Branch, ProbTreeState
from nodes.probtree.tree import children_of, ready

ABOUT = About(
    name="ProbTree",
    summary="a tree of sub-questions, each answered in three ways; the most probable answer is kept",
    citation="Cao et al., Probabilistic Tree-of-thought Reasoning for Answering Knowledge-intensive Complex Questions",
    published="2023-11",
    kind="baseline",
)


@with_context(ProbTreeContext)
def answer(state: ProbTreeState, context: ProbTreeContext) -> list[Send] | str:
    """From the leaves to the root: every question that can be answered now, in every way."""
    tasks = []
    for node in ready(state["tree"]):
        children = children_of(state["tree"], node)
        branch = Branch(index=state["index"], given=state["given"], node=node, children=children)
        ways = ["closed_book", "open_book", *(["child_aggregating"] if children else [])]
        tasks += [Send(way, branch) for way in ways if way not in context.ablate]
    return tasks or "the root is answered"


builder = StateGraph(ProbTreeState, context_schema=ProbTreeContext, input_schema=QuestionInput)
builder.add_node("intake", intake(resets=lambda given: {"tree": Overwrite([]), "candidates": Overwrite([])}))
builder.add_node("decomposer", decomposer)
builder.add_node("closed_book", closed_book)
builder.add_node("open_book", open_book)
builder.add_node("child_aggregating", child_aggregating)
builder.add_node("chooser", chooser)

WAYS: dict[Hashable, str] = {
    "from memory": "closed_book",
    "from passages": "open_book",
    "from sub-questions": "child_aggregating",
    "the root is answered": END,
}
builder.add_edge(START, "intake")
builder.add_edge("intake", "decomposer")
builder.add_conditional_edges("decomposer", answer, {key: to for key, to in WAYS.items() if to != END})
builder.add_edge("closed_book", "chooser")
builder.add_edge("open_book", "chooser")
builder.add_edge("child_aggregating", "chooser")
builder.add_conditional_edges("chooser", answer, WAYS)
