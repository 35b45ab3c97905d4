"""Settings of Adaptive Retrieval."""

from __future__ import annotations

from pydantic import Field

from nodes.kit.context import Context, prompt_field


class AdaptiveRetrievalContext(Context):
    """Adaptive Retrieval: one search for a question about a rare entity, none for one about well-known ones."""

    method = "adaptive_retrieval"
    paper_retriever = "sparse"

    popular_from: int = Field(
        default=10,
        ge=1,
        le=1_000_000,
        title="Popular from",
        description=(
            "Minimum number of passages that name a popular entity. A question about popular entities only is answered "
            "without a search."
        ),
    )
    prompt_no_retrieval: str | None = prompt_field("no_retrieval/answer", "generator", title="no retrieval")
    prompt_retrieval: str | None = prompt_field("standard_rag/answer", "reader", title="retrieval")
