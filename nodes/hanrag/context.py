"""HANRAG's settings."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from inference.heads.revelator import Route
from nodes.kit.context import Context, prompt_field, review_field


class HanContext(Context):
    """HANRAG: a Revelator that routes, decomposes, refines, and keeps noise away."""

    method = "hanrag"
    concludes = True
    embedded: ClassVar[dict[str, Any]] = {"top_k": 3, "revelator": "encoder"}
    paper_retriever = "sparse"
    without_logprobs = "take verdicts by their text (`verdicts=text`) or by the encoder (`revelator=encoder`)"

    route: Route | None = Field(
        default=None, title="Route", description="Path of every question, instead of the router's choice (App. C)."
    )
    revelator: Literal["model", "encoder"] = Field(
        default="model",
        title="Revelator",
        description=(
            "What routes, and judges relevance and ending: the model, or a small trained encoder that costs no call. "
            "The model always decomposes and refines."
        ),
    )
    router: Literal["model", "encoder", "oracle"] | None = Field(
        default=None,
        title="Router",
        description=(
            "The same for routing only. Empty: as `revelator`. `oracle`: the gold route of each question (App. C)."
        ),
    )
    relevance: Literal["model", "encoder"] | None = Field(
        default=None, title="Relevance", description="The same for relevance only. Empty: as `revelator`."
    )
    ending: Literal["model", "encoder"] | None = Field(
        default=None, title="Ending", description="The same for the ending only. Empty: as `revelator`."
    )
    verdicts: Literal["probability", "text"] = Field(
        default="probability",
        title="Verdicts",
        description="Verdicts by the probability of `true`, or by text for servers without log-probabilities.",
    )
    relevance_threshold: float = Field(
        default=0.5,
        ge=0.0,
        le=1.0,
        title="Relevance threshold",
        description="Minimum probability of relevance of a passage that is kept.",
    )
    ending_threshold: float = Field(
        default=0.5,
        ge=0.0,
        le=1.0,
        title="Ending threshold",
        description="Retrieval ends when the probability that the chain is sufficient is at least this.",
    )
    max_steps: int = Field(
        default=5, ge=1, le=20, title="Steps", description="Maximum number of seed questions of a complex question."
    )
    review: Literal["none", "human"] = review_field("every verdict about the ending")
    ablate: list[Literal["relevance", "ending", "refiner"]] = Field(
        default=[],
        title="Ablations",
        description=(
            "`relevance`: all passages are kept. `ending`: all steps are taken. `refiner`: the question itself is "
            "asked in every step (App. E)."
        ),
    )

    def threshold_of(self, node: str) -> float | None:
        """Relevance and ending each have their own."""
        thresholds = {
            "relevance_discriminator": self.relevance_threshold,
            "ending_discriminator": self.ending_threshold,
        }
        return thresholds.get(node)

    @property
    def oracle(self) -> Literal["", "evidence", "route", "complexity"]:
        """The oracle router is shown the route."""
        return "route" if self.router == "oracle" else ""

    def by_encoder(self, skill: Literal["router", "relevance", "ending"]) -> bool:
        """Whether the encoder has this skill of the Revelator."""
        chosen: str | None = {"router": self.router, "relevance": self.relevance, "ending": self.ending}[skill]
        return (chosen or self.revelator) == "encoder"

    def check(self) -> None:
        """An encoder that is asked for has to be there."""
        super().check()
        if self.by_encoder("router") or self.by_encoder("relevance") or self.by_encoder("ending"):
            from inference.heads.revelator import route

            route(["?"])

    prompt_router: str | None = prompt_field("hanrag/router", "router")
    prompt_straightforward: str | None = prompt_field("hanrag/straightforward", "generator")
    prompt_decomposer: str | None = prompt_field("hanrag/decomposer", "decomposer")
    prompt_refiner: str | None = prompt_field("hanrag/refiner", "refiner")
    prompt_relevance: str | None = prompt_field("hanrag/relevance", "relevance_discriminator")
    prompt_answer: str | None = prompt_field("hanrag/answer", "generator")
    prompt_ending: str | None = prompt_field("hanrag/ending", "ending_discriminator")
    prompt_aggregator: str | None = prompt_field("hanrag/aggregator", "aggregator")
    prompt_synthesizer: str | None = prompt_field("hanrag/synthesizer", "synthesizer")
