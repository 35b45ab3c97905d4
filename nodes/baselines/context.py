"""Settings of the baselines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from nodes.kit.context import Context, prompt_field

if TYPE_CHECKING:
    from inference.heads.revelator import Route

Complexity = Literal["no_retrieval", "single_step", "multi_step"]
"""Adaptive-RAG's classes A, B and C: the model alone, one search, a search after every step of reasoning."""

COMPLEXITY: Mapping[Route, Complexity] = {
    "straightforward": "no_retrieval",
    "single_step": "single_step",
    "compound": "multi_step",
    "complex": "multi_step",
}
"""Adaptive-RAG's class for each of the encoder's routes: several searches mean class C."""


class NoRetrievalContext(Context):
    """The model alone."""

    method = "no_retrieval"
    searches = False

    prompt_answer: str | None = prompt_field("no_retrieval/answer", "generator")


class StandardRagContext(Context):
    """One search, one answer."""

    method = "standard_rag"
    paper_retriever = "dense"  # as PruneRAG, CompactRAG (Contriever) and PAR-RAG measure it; HANRAG has BM25

    prompt_answer: str | None = prompt_field("standard_rag/answer", "generator")


class SelfAskContext(Context):
    """Self-Ask: follow-up questions, one after the other."""

    method = "self_ask"
    paper_retriever = "dense"  # as CompactRAG measures it (Contriever); its own paper asks a web search

    max_follow_ups: int = Field(
        default=5, ge=0, le=20, title="Follow-ups", description="Maximum number of follow-up questions."
    )
    prompt_asker: str | None = prompt_field("self_ask/asker", "asker")
    prompt_intermediate: str | None = prompt_field("self_ask/intermediate", "generator")


class IterRetGenContext(Context):
    """Iter-RetGen: each iteration searches with what the one before wrote."""

    method = "iter_retgen"
    paper_retriever = "dense"

    iterations: int = Field(default=4, ge=1, le=10, title="Iterations", description="Rounds of search and answer (T).")
    prompt_draft: str | None = prompt_field("iter_retgen/draft", "drafter")


class IrcotContext(Context):
    """IRCoT: a search after every sentence of a chain of thought."""

    method = "ircot"
    paper_retriever = "sparse"

    max_steps: int = Field(
        default=8, ge=1, le=20, title="Steps", description="Maximum number of sentences of the chain of thought."
    )
    max_passages: int = Field(
        default=15, ge=1, le=100, title="Passages", description="Passages kept over all searches, the first ones found."
    )
    prompt_thought: str | None = prompt_field("ircot/thought", "reasoner")
    prompt_answer: str | None = prompt_field("ircot/answer", "generator")


class ReactContext(Context):
    """ReAct: thought, action and observation in turn."""

    method = "react"
    paper_retriever = "sparse"

    max_steps: int = Field(
        default=7, ge=1, le=30, title="Turns", description="Maximum number of turns; the last one must finish."
    )
    prompt_agent: str | None = prompt_field("react/agent", "agent")


class AdaptiveContext(Context):
    """Adaptive-RAG: no search, one search, or IRCoT, depending on the question's complexity."""

    method = "adaptive_rag"
    paper: ClassVar[dict[str, Any]] = {"router": "encoder"}
    paper_retriever = "sparse"

    route: Complexity | None = Field(
        default=None, title="Route", description="Path of every question, instead of the router's choice."
    )
    router: Literal["model", "encoder", "oracle"] = Field(
        default="model",
        title="Router",
        description=(
            "Classifier of a question's complexity: the model, or a small trained encoder that costs no call. "
            "`oracle`: the gold class comes with each question."
        ),
    )
    max_steps: int = Field(
        default=8, ge=1, le=20, title="Steps", description="Maximum number of sentences of the chain of thought."
    )
    max_passages: int = Field(
        default=15, ge=1, le=100, title="Passages", description="Passages kept over all searches, the first ones found."
    )
    prompt_router: str | None = prompt_field("adaptive_rag/router", "router")
    prompt_no_retrieval: str | None = prompt_field("no_retrieval/answer", "generator", title="no retrieval")
    prompt_single_step: str | None = prompt_field("standard_rag/answer", "single_step_reader", title="single step")
    prompt_thought: str | None = prompt_field("ircot/thought", "reasoner")
    prompt_multi_step: str | None = prompt_field("ircot/answer", "multi_step_reader", title="multi step")

    @property
    def oracle(self) -> Literal["", "evidence", "route", "complexity"]:
        """The oracle classifier is shown the class."""
        return "complexity" if self.router == "oracle" else ""

    def gold_route(self, route: Route) -> Complexity:
        """The class of a gold route."""
        return COMPLEXITY[route]

    def by_encoder(self, skill: Literal["router"]) -> bool:
        """Whether the encoder has this skill."""
        return self.router == "encoder"

    def check(self) -> None:
        """An encoder that is asked for has to be there."""
        super().check()
        if self.by_encoder("router"):
            from inference.heads.revelator import route

            route(["?"])
