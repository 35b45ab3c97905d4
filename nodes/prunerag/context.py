"""PruneRAG's settings."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from nodes.kit.context import Context, prompt_field, review_field


class PruneContext(Context):
    """PruneRAG: a confidence-guided decomposition tree."""

    method = "prunerag"
    paper: ClassVar[dict[str, Any]] = {"max_tokens": 4096}
    paper_retriever = "dense"
    embedded: ClassVar[dict[str, Any]] = {"top_k": 3, "threshold": 0.75}

    threshold: float = Field(
        default=0.95,
        ge=0.0,
        le=1.0,
        title="Confidence threshold",
        description="An answer is accepted when its confidence is at least this (tau_A).",
    )
    max_depth: int = Field(
        default=3, ge=1, le=6, title="Depth", description="Deepest level of the tree; the root is level 1."
    )
    branching: int = Field(
        default=2,
        ge=2,
        le=4,
        title="Branching",
        description="Number of sub-queries of a node, and maximum number of its entities.",
    )
    max_searches: int = Field(
        default=7, ge=1, le=100, title="Search budget", description="Maximum number of searches per question."
    )
    backtrace: Literal["bottom_up", "single_call"] = Field(
        default="bottom_up",
        title="Backtracing",
        description="`bottom_up`: as in the paper. `single_call`: one call over the whole tree (released code).",
    )
    review: Literal["none", "human"] = review_field("every answer that the confidence gate has judged")
    ablate: list[Literal["confidence", "answer", "entity", "adaptive"]] = Field(
        default=[],
        title="Ablations",
        description=(
            "`confidence`: every answer is accepted. `answer`: no node answers. `entity`: no entity nodes. "
            "`adaptive`: always split, down to the last level (Table 2)."
        ),
    )
    prompt_decomposer: str | None = prompt_field("prunerag/decomposer", "decomposer", "decomposer_again")
    prompt_extractor: str | None = prompt_field("prunerag/extractor", "extractor")
    prompt_summarizer: str | None = prompt_field("prunerag/summarizer", "summarizer")
    prompt_aggregator: str | None = prompt_field("prunerag/aggregator", "aggregator")
    prompt_single_call: str | None = prompt_field("prunerag/single_call", "aggregator")
