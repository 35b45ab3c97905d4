"""PRISM's settings."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from nodes.kit.context import Context, prompt_field


class PrismContext(Context):
    """PRISM: precision and recall in a loop over evidence sentences."""

    method = "prism"
    embedded: ClassVar[dict[str, Any]] = {"top_k": 3, "pool_size": 6}

    max_iterations: int = Field(
        default=3, ge=1, le=10, title="Iterations", description="Maximum number of rounds of Selector and Adder (N)."
    )
    pool_size: int = Field(
        default=20,
        ge=1,
        le=100,
        title="Pool size",
        description="Maximum number of candidate passages over all searches.",
    )
    order: Literal["selector_first", "adder_first"] = Field(
        default="selector_first",
        title="Order",
        description="`adder_first` is the order of the paper's example (App. A.3), which starts from a guess.",
    )
    final: Literal["union", "last"] = Field(
        default="union",
        title="Final evidence",
        description="`union`: what any Selector kept, and the last Adder's additions. `last`: the last Selector's set.",
    )
    answer_from: Literal["sentences", "passages"] = Field(
        default="sentences",
        title="Answer from",
        description="The generator's input: the evidence sentences, or their whole passages (Table 7).",
    )
    condition: Literal["prism", "full_context", "oracle_context", "oner", "setwise"] = Field(
        default="prism",
        title="Condition",
        description=(
            "The paper's comparisons: all candidates, gold evidence (input `gold`), one BM25 search (OneR), or one "
            "call that picks a set of passages out of 20 (SetR)."
        ),
    )
    ablate: list[Literal["analyzer", "loop"]] = Field(
        default=[],
        title="Ablations",
        description="`analyzer`: no sub-questions. `loop`: one selection, no Adder (Table 5).",
    )

    @property
    def oracle(self) -> Literal["", "evidence", "route", "complexity"]:
        """The oracle condition is shown gold evidence."""
        return "evidence" if self.condition == "oracle_context" else ""

    @property
    def adder_first(self) -> bool:
        """Whether a round begins with the Adder; a run without the loop has none."""
        return self.order == "adder_first" and "loop" not in self.ablate

    prompt_analyzer: str | None = prompt_field("prism/analyzer", "analyzer")
    prompt_guess: str | None = prompt_field("prism/guess", "guess")
    prompt_selector: str | None = prompt_field("prism/selector", "selector")
    prompt_selector_prune: str | None = prompt_field("prism/selector_prune", "selector")
    prompt_setwise: str | None = prompt_field("prism/setwise", "setwise")
    prompt_adder: str | None = prompt_field("prism/adder", "adder")
    prompt_answer: str | None = prompt_field("prism/answer", "generator")
