"""PAR-RAG's settings."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from inference.errors import InputError
from inference.settings import Role, get_settings
from nodes.kit.context import Context, prompt_field, review_field


class ParContext(Context):
    """PAR-RAG: plan, act and review."""

    method = "parrag"
    paper: ClassVar[dict[str, Any]] = {"revision": "replace"}
    concludes = True
    embedded: ClassVar[dict[str, Any]] = {"top_k": 3, "retriever": "hybrid"}
    paper_retriever = "dense"

    top_k: int = Field(default=10, ge=1, le=100, title="Top k", description="Passages a search returns.")
    retriever: Literal["hybrid", "dense", "sparse", "bridge", "paper"] = Field(
        default="dense",
        title="Retriever",
        description="Retriever of a step's first search; re-retrieval after a rejection is always sparse.",
    )
    threshold: float = Field(
        default=0.65,
        ge=0.0,
        le=1.0,
        title="Confidence threshold",
        description="A step's answer is accepted when its confidence C is at least this (C_t).",
    )
    gamma: float = Field(
        default=1.5,
        gt=0.0,
        le=10.0,
        title="Gamma",
        description="Steepness of the weight of accuracy as a function of the hop count (Eq. 9).",
    )
    h0: float = Field(
        default=3.5,
        gt=0.0,
        le=10.0,
        title="h0",
        description="Hop count at which accuracy and credibility have equal weights (Eq. 9).",
    )
    hop_count: int | None = Field(
        default=None,
        ge=1,
        le=4,
        title="Hop count",
        description="Fixed hop count, instead of the predicted one (Table 4).",
    )
    exemplars: Literal["complexity", "similarity", "none"] = Field(
        default="complexity",
        title="Exemplars",
        description="Choice of the planner's exemplars: by hop count, then similarity; by similarity; none (Fig. 4).",
    )
    exemplar_count: int = Field(
        default=1, ge=1, le=5, title="Exemplar count", description="Number of exemplars in the planner's prompt."
    )
    max_steps: int = Field(
        default=6, ge=1, le=12, title="Plan length", description="Maximum number of steps of a plan."
    )
    attribution: Literal["model", "attrscore"] = Field(
        default="model",
        title="Attribution",
        description=(
            "Judge of whether the cited passages support an answer: the model, or a scorer such as AttrScore at "
            "HOPGRAPH_ATTRIBUTION_URL."
        ),
    )
    revision: Literal["better", "replace"] = Field(
        default="better",
        title="Revision",
        description=(
            "After a rejection: `better` reviews the second answer too and keeps the better one; `replace` keeps the "
            "second (Alg. 1)."
        ),
    )
    review: Literal["none", "human"] = review_field("every answer that was reviewed")
    ablate: list[Literal["plan", "review"]] = Field(
        default=[],
        title="Ablations",
        description="`plan`: the question is the only step. `review`: every answer is accepted.",
    )
    prompt_planner: str | None = prompt_field("parrag/planner", "planner")
    prompt_actor: str | None = prompt_field("parrag/actor", "actor", "reviser")
    prompt_actor_trajectory: str | None = prompt_field("parrag/actor_trajectory", "actor")
    prompt_accuracy: str | None = prompt_field("parrag/accuracy", "accuracy_judge")
    prompt_attribution: str | None = prompt_field("parrag/attribution", "attribution_judge")
    prompt_attrscore: str | None = prompt_field("parrag/attrscore", "attribution_judge")
    prompt_refiner: str | None = prompt_field("parrag/refiner", "refiner")
    prompt_answer: str | None = prompt_field("parrag/answer", "generator")

    def threshold_of(self, node: str) -> float | None:
        """The reviewer's; the hop predictor's probability decides nothing."""
        return self.threshold if node == "reviewer" else None

    @property
    def roles(self) -> tuple[Role, ...]:
        """Both judges may be other models (Sec. 4.5.3)."""
        settings = get_settings()
        found = list(super().roles)
        if settings.accuracy_url or settings.accuracy_model:
            found.append("accuracy")
        return (*found, "attribution") if self.attribution == "attrscore" else (*found,)

    def check(self) -> None:
        """A scorer that is asked for has to be named."""
        super().check()
        settings = get_settings()
        if self.attribution == "attrscore" and not (settings.attribution_url or settings.attribution_model):
            raise InputError(
                "attribution: `attrscore` needs a scorer, and neither HOPGRAPH_ATTRIBUTION_URL nor "
                "HOPGRAPH_ATTRIBUTION_MODEL names one",
                hint="serve AttrScore or its like at an OpenAI-compatible endpoint; `attribution=model` does without",
            )
