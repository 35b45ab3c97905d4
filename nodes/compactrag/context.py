"""CompactRAG's settings."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from inference.settings import get_settings
from nodes.kit.context import Context, prompt_field


class CompactContext(Context):
    """CompactRAG: decompose, resolve with small local models, synthesise."""

    method = "compactrag"
    knowledge_base = True
    concludes = True
    paper_retriever = "dense"

    top_k: int = Field(default=5, ge=1, le=100, title="Top k", description="Pairs retrieved for a sub-question.")
    retriever: Literal["dense", "paper"] = Field(
        default="dense", title="Retriever", description="Pairs are retrieved by the dense half only, as in the paper."
    )
    rerank: Literal["off"] = Field(default="off", title="Rerank", description="Pairs are not reranked.")
    max_subquestions: int = Field(
        default=8, ge=1, le=16, title="Sub-questions", description="Maximum number of sub-questions."
    )
    ablate: list[Literal["rewriter", "extractor"]] = Field(
        default=[],
        title="Ablations",
        description=(
            "`rewriter`: extracted answers are appended to the sub-questions that need them. `extractor`: neither "
            "extractor nor rewriter; sub-questions are searched for as they were decomposed (Table 3)."
        ),
    )

    def check(self) -> None:
        """Check that configured checkpoints of extractor and rewriter exist."""
        super().check()
        from inference.heads.exported import check_checkpoint

        settings = get_settings()
        check_checkpoint("HOPGRAPH_EXTRACTOR", settings.extractor)
        check_checkpoint("HOPGRAPH_REWRITER", settings.rewriter)

    prompt_decomposer: str | None = prompt_field("compactrag/decomposer", "decomposer")
    prompt_synthesizer: str | None = prompt_field("compactrag/synthesizer", "generator")
    prompt_synthesizer_pairs: str | None = prompt_field("compactrag/synthesizer_pairs", "generator")


class ReaderContext(Context):
    """CompactRAG's reader: a passage into atomic question-answer pairs."""

    method = "compactrag_reader"

    max_tokens: int = Field(
        default=2048, ge=16, le=32768, title="Max tokens", description="Maximum completion length of a call, in tokens."
    )
    max_pairs: int = Field(
        default=24, ge=1, le=100, title="Pairs", description="Maximum number of pairs, and of atomic facts, of a call."
    )
    atomic_facts: bool = Field(
        default=True,
        title="Atomic facts",
        description="Write atomic facts before the pairs, as in the paper; without them a call takes half the tokens.",
    )
    verbatim: Literal["drop", "flag"] = Field(
        default="drop",
        title="Not verbatim",
        description="Treatment of a pair whose answer is not in the passage verbatim.",
    )
    coverage_repair: bool = Field(
        default=False,
        title="Coverage repair",
        description="One more call for entities that no pair mentions; its tokens are reported separately.",
    )
    prompt_reader: str | None = prompt_field("compactrag_reader/reader", "pair_writer")
    prompt_reader_pairs: str | None = prompt_field("compactrag_reader/reader_pairs", "pair_writer")
    prompt_coverage: str | None = prompt_field("compactrag_reader/coverage", "coverage_repairer")
