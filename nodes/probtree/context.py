"""Settings of ProbTree."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from nodes.kit.context import Context, prompt_field


class ProbTreeContext(Context):
    """ProbTree: the likeliest answers of a tree of sub-questions."""

    method = "probtree"
    paper_retriever = "sparse"
    without_logprobs: ClassVar[str] = "choose another method: answers are compared by them"

    max_depth: int = Field(
        default=3, ge=1, le=6, title="Depth", description="Maximum number of levels; the question is the first."
    )
    max_nodes: int = Field(
        default=15, ge=1, le=100, title="Nodes", description="Maximum number of questions in the tree."
    )
    ablate: list[Literal["closed_book", "open_book", "child_aggregating"]] = Field(
        default=[],
        title="Ablations",
        description="Ways of answering to leave out (Sec. 4.4); one of the first two has to stay.",
    )
    prompt_decomposer: str | None = prompt_field("probtree/decomposer", "decomposer")
    prompt_closed_book: str | None = prompt_field("probtree/closed_book", "closed_book")
    prompt_open_book: str | None = prompt_field("probtree/open_book", "open_book")
    prompt_child_aggregating: str | None = prompt_field("probtree/child_aggregating", "child_aggregating")

    @model_validator(mode="after")
    def _a_leaf_can_be_answered(self) -> Self:
        if {"closed_book", "open_book"} <= {*self.ablate}:
            raise ValueError("closed_book and open_book can't both be left out: a leaf has no other answer")
        return self
