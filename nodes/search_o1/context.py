"""Settings of Search-o1."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from nodes.kit.context import Context, prompt_field


class SearchO1Context(Context):
    """Search-o1: searches within a chain of reasoning."""

    method = "search_o1"
    paper_retriever = "dense"  # as PruneRAG measures it; its own paper asks a web search
    paper: ClassVar[dict[str, Any]] = {"top_k": 10}
    embedded: ClassVar[dict[str, Any]] = {"max_searches": 4, "max_turns": 5}

    max_searches: int = Field(default=10, ge=0, le=50, title="Searches", description="Maximum number of searches.")
    max_turns: int = Field(
        default=15,
        ge=1,
        le=100,
        title="Turns",
        description="Maximum number of turns of the reasoning, repeated queries included; the last one must answer.",
    )
    ablate: list[Literal["reason_in_documents"]] = Field(
        default=[],
        title="Ablations",
        description="`reason_in_documents`: retrieved passages enter the reasoning unchanged (RAgent).",
    )
    prompt_reasoner: str | None = prompt_field("search_o1/reasoner", "reasoner")
    prompt_reason_in_documents: str | None = prompt_field("search_o1/reason_in_documents", "reason_in_documents")
