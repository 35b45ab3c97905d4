"""Run-time context: what a person can set for a call, a class a method. Every field says what it is and its bounds."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from inference.errors import InputError
from inference.revelator import Route
from inference.settings import get_settings
from prompts.loader import is_same_text, prompt_text

__all__ = [
    "AdaptiveContext",
    "CompactContext",
    "Complexity",
    "Context",
    "HanContext",
    "IrcotContext",
    "IterRetGenContext",
    "JudgeContext",
    "NoRetrievalContext",
    "ParContext",
    "PrismContext",
    "PruneContext",
    "ReactContext",
    "ReaderContext",
    "Retriever",
    "SelfAskContext",
    "StandardRagContext",
]

Retriever = Literal["hybrid", "dense", "sparse"]
Complexity = Literal["no_retrieval", "single_step", "multi_step"]
"""Adaptive-RAG's classes A, B and C: the model alone, one search, a search after every step of reasoning."""


def _prompt(name: str, *nodes: str, title: str = "") -> Any:
    """A field that takes the place of prompt `name` in `nodes`; its title is the prompt's role, or the one given."""
    role = name.partition("/")[2].replace("_", " ")
    return Field(
        default=None,
        title=f"Prompt: {title or role}",
        description=f"Text used instead of prompts/{name}.md, with the same variables. Empty or unchanged: the file's.",
        json_schema_extra={"langgraph_nodes": list(nodes), "langgraph_type": "prompt", "prompt": name},
    )


def _review(verdict: str) -> Any:
    """A field that has a person confirm a verdict."""
    return Field(
        default="none",
        title="Review",
        description=f"`human`: the run stops at {verdict} and waits for a person to confirm or overrule it.",
    )


class Context(BaseModel):
    """Settings that every method has."""

    model_config = ConfigDict(extra="forbid", validate_default=True)

    method: ClassVar[str] = ""
    """The method's id."""
    paper: ClassVar[dict[str, Any]] = {}
    """The paper's settings, where they are not the defaults."""
    paper_retriever: ClassVar[Retriever] = "hybrid"
    searches: ClassVar[bool] = True
    """Whether the method needs an index, where no passages are given."""
    knowledge_base: ClassVar[bool] = False
    """Whether the method answers from question-answer pairs that a reader has made of the index."""
    may_change: ClassVar[frozenset[str]] = frozenset(
        {"model", "generator_model", "temperature", "max_tokens", "seed", "node_timeout", "run_timeout"}
    )
    """Settings that may change when a run is resumed: how the model is asked, not what the run does."""
    without_logprobs: ClassVar[str] = "leave out what needs them (`ablate`)"
    """What can be done where the server gives no log-probabilities."""

    index: str | None = Field(
        default=None, title="Index", description="Name of the index to search; `hopgraph index` makes one."
    )
    model: str | None = Field(
        default=None, title="Model", description="Model name at the endpoint. Empty: HOPGRAPH_LLM_MODEL."
    )
    generator_model: str | None = Field(
        default=None, title="Generator model", description="Model that writes the answers. Empty: the same model."
    )
    top_k: int = Field(default=5, ge=1, le=100, title="Top k", description="Passages a search returns.")
    retriever: Literal["hybrid", "dense", "sparse", "paper"] = Field(
        default="hybrid",
        title="Retriever",
        description="Half of the store that is searched, or both fused; `paper` is what the method's paper used.",
    )
    preset: Literal["default", "paper"] = Field(
        default="default",
        title="Preset",
        description="`paper` takes the paper's settings for everything that is not set here.",
    )
    temperature: float = Field(
        default=0.0, ge=0.0, le=2.0, title="Temperature", description="Sampling temperature; 0 is greedy."
    )
    max_tokens: int = Field(
        default=512, ge=16, le=32768, title="Max tokens", description="Longest completion of one call, in tokens."
    )
    seed: int | None = Field(
        default=0, ge=0, le=2**31 - 1, title="Seed", description="Sampling seed, for servers that honour one."
    )

    node_timeout: float | None = Field(
        default=None,
        gt=0,
        le=604_800,
        title="Node deadline",
        description="Seconds a node may take, waiting for the endpoint included. Empty: no limit of its own.",
    )
    run_timeout: float | None = Field(
        default=None,
        gt=0,
        le=604_800,
        title="Run deadline",
        description="Seconds a run may take in one go; resumed, it has as many again. Empty: no limit.",
    )

    @model_validator(mode="before")
    @classmethod
    def _apply_preset(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("preset") == "paper":
            return {"retriever": "paper", **cls.paper, **values}
        return values

    @model_validator(mode="before")
    @classmethod
    def _unchanged_prompt_is_unset(cls, values: Any) -> Any:
        """A form sends the text that it showed: the run uses the file, whose later edits it follows."""
        if not isinstance(values, dict):
            return values
        texts = {field: (name, values.get(field)) for field, name in cls.prompts().items()}
        unchanged = {
            field
            for field, (name, text) in texts.items()
            if isinstance(text, str) and text.strip() and is_same_text(name, text)
        }
        return {field: value for field, value in values.items() if field not in unchanged}

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The schema that Studio builds its form by: a prompt's field is a text, and shows the file that is used."""
        made = handler(schema)
        fields = handler.resolve_ref_schema(made)["properties"]
        for field, name in cls.prompts().items():
            with suppress(InputError):  # a malformed file; a run says what is wrong with it
                fields[field]["default"] = prompt_text(name)
                fields[field]["type"] = fields[field].pop("anyOf", [{"type": "string"}])[0]["type"]
        return made

    @model_validator(mode="after")
    def _blank_is_unset(self) -> Self:
        for name in type(self).model_fields:
            if getattr(self, name) == "" and type(self).model_fields[name].default is None:
                self.__dict__[name] = None
        return self

    @property
    def mode(self) -> Retriever:
        """The store's search mode."""
        return self.paper_retriever if self.retriever == "paper" else self.retriever

    @property
    def oracle(self) -> Literal["", "evidence", "route", "complexity"]:
        """What of the gold these settings have to be shown; "": nothing, as a method should be."""
        return ""

    def check(self) -> None:
        """Whether what these settings name is there. A run begins with it.

        Raises:
            InputError: Something is missing; the message names the setting.
            StoreError: Trained weights can't be read.
        """

    def threshold_of(self, node: str) -> float | None:
        """What a node's score has to reach; None where nothing depends on it."""
        return getattr(self, "threshold", None)

    def prompt_override(self, name: str) -> str | None:
        """The text that this call puts in the place of prompt `name`."""
        return self.prompt_overrides().get(name)

    def prompt_overrides(self) -> dict[str, str]:
        """All prompts that this call replaces, by name."""
        return {name: text for field, name in self.prompts().items() if (text := getattr(self, field))}

    @classmethod
    def prompts(cls) -> dict[str, str]:
        """The method's prompts: context field -> prompt name."""
        extras = {name: field.json_schema_extra for name, field in cls.model_fields.items()}
        return {
            name: str(extra["prompt"])
            for name, extra in extras.items()
            if isinstance(extra, dict) and "prompt" in extra
        }


class NoRetrievalContext(Context):
    """The model alone."""

    method = "no_retrieval"
    searches = False

    prompt_answer: str | None = _prompt("no_retrieval/answer", "generator")


class JudgeContext(Context):
    """A judge of answers, in an evaluation; no method."""

    method = "judge"

    prompt_correctness: str | None = _prompt("judge/correctness", "correctness_judge")


class StandardRagContext(Context):
    """One search, one answer."""

    method = "standard_rag"

    prompt_answer: str | None = _prompt("standard_rag/answer", "generator")


class SelfAskContext(Context):
    """Self-Ask: follow-up questions, one after the other."""

    method = "self_ask"

    max_follow_ups: int = Field(
        default=5, ge=0, le=20, title="Follow-ups", description="Follow-up questions at most; then it has to answer."
    )
    prompt_asker: str | None = _prompt("self_ask/asker", "asker")
    prompt_intermediate: str | None = _prompt("self_ask/intermediate", "generator")


class IterRetGenContext(Context):
    """Iter-RetGen: each iteration searches with what the one before wrote."""

    method = "iter_retgen"
    paper_retriever = "dense"

    iterations: int = Field(
        default=4, ge=1, le=10, title="Iterations", description="Searches, each with an answer from what it found (T)."
    )
    prompt_draft: str | None = _prompt("iter_retgen/draft", "drafter")


class IrcotContext(Context):
    """IRCoT: a search after every sentence of a chain of thought."""

    method = "ircot"
    paper_retriever = "sparse"

    max_steps: int = Field(
        default=8, ge=1, le=20, title="Steps", description="Sentences of the chain of thought at most."
    )
    max_passages: int = Field(
        default=15, ge=1, le=100, title="Passages", description="Passages kept over all searches, the first ones found."
    )
    prompt_thought: str | None = _prompt("ircot/thought", "reasoner")
    prompt_answer: str | None = _prompt("ircot/answer", "generator")


class ReactContext(Context):
    """ReAct: thought, action and observation in turn."""

    method = "react"
    paper_retriever = "sparse"

    max_steps: int = Field(
        default=7, ge=1, le=30, title="Turns", description="Turns at most; in the last one it has to finish."
    )
    prompt_agent: str | None = _prompt("react/agent", "agent")


class AdaptiveContext(Context):
    """Adaptive-RAG: no search, one, or IRCoT, by how complex the question is."""

    method = "adaptive_rag"
    paper: ClassVar[dict[str, Any]] = {"router": "encoder"}
    paper_retriever = "sparse"

    route: Complexity | None = Field(
        default=None, title="Route", description="Instead of the router's: every question takes this path."
    )
    router: Literal["model", "encoder", "oracle"] = Field(
        default="model",
        title="Router",
        description=(
            "Who says how complex a question is: the model, or a small trained encoder that costs no call. `oracle`: "
            "it comes with each question."
        ),
    )
    max_steps: int = Field(
        default=8, ge=1, le=20, title="Steps", description="Sentences of a chain of thought at most."
    )
    max_passages: int = Field(
        default=15, ge=1, le=100, title="Passages", description="Passages kept over all searches, the first ones found."
    )
    prompt_router: str | None = _prompt("adaptive_rag/router", "router")
    prompt_no_retrieval: str | None = _prompt("no_retrieval/answer", "generator", title="no retrieval")
    prompt_single_step: str | None = _prompt("standard_rag/answer", "single_step_reader", title="single step")
    prompt_thought: str | None = _prompt("ircot/thought", "reasoner")
    prompt_multi_step: str | None = _prompt("ircot/answer", "multi_step_reader", title="multi step")

    @property
    def oracle(self) -> Literal["", "evidence", "route", "complexity"]:
        """The oracle classifier is shown the class."""
        return "complexity" if self.router == "oracle" else ""

    def by_encoder(self, skill: Literal["router"]) -> bool:
        """Whether the encoder has this skill."""
        return self.router == "encoder"

    def check(self) -> None:
        """An encoder that is asked for has to be there."""
        if self.by_encoder("router"):
            from inference.revelator import route

            route(["?"])


class PruneContext(Context):
    """PruneRAG: a confidence-guided decomposition tree."""

    method = "prunerag"
    paper: ClassVar[dict[str, Any]] = {"max_tokens": 4096}
    paper_retriever = "dense"

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
        default=2, ge=2, le=4, title="Branching", description="Sub-queries, or entities at most, of a node."
    )
    max_searches: int = Field(
        default=7, ge=1, le=100, title="Search budget", description="Searches a question may cost."
    )
    backtrace: Literal["bottom_up", "single_call"] = Field(
        default="bottom_up",
        title="Backtracing",
        description="`bottom_up` is the paper's; `single_call` answers once from the whole tree, as released.",
    )
    review: Literal["none", "human"] = _review("every answer that the confidence gate has judged")
    ablate: list[Literal["confidence", "answer", "entity", "adaptive"]] = Field(
        default=[],
        title="Ablations",
        description=(
            "`confidence`: every answer is accepted. `answer`: no node answers. `entity`: no entity nodes. "
            "`adaptive`: always split, down to the last level (Table 2)."
        ),
    )
    prompt_decomposer: str | None = _prompt("prunerag/decomposer", "decomposer", "decomposer_again")
    prompt_extractor: str | None = _prompt("prunerag/extractor", "extractor")
    prompt_summarizer: str | None = _prompt("prunerag/summarizer", "summarizer")
    prompt_aggregator: str | None = _prompt("prunerag/aggregator", "aggregator")
    prompt_single_call: str | None = _prompt("prunerag/single_call", "aggregator")


class ParContext(Context):
    """PAR-RAG: plan, act and review."""

    method = "parrag"
    paper: ClassVar[dict[str, Any]] = {"revision": "replace"}
    paper_retriever = "dense"

    top_k: int = Field(default=10, ge=1, le=100, title="Top k", description="Passages a search returns.")
    retriever: Literal["hybrid", "dense", "sparse", "paper"] = Field(
        default="dense",
        title="Retriever",
        description="Half of the store that a step searches first; re-retrieval after a rejection is always sparse.",
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
        description="Steepness of the weight of accuracy over the hop count.",
    )
    h0: float = Field(
        default=3.5,
        gt=0.0,
        le=10.0,
        title="h0",
        description="Hop count at which accuracy and credibility weigh the same.",
    )
    hop_count: int | None = Field(
        default=None, ge=1, le=4, title="Hop count", description="Instead of the predicted one (Table 4)."
    )
    exemplars: Literal["complexity", "similarity", "none"] = Field(
        default="complexity",
        title="Exemplars",
        description="How the plan's exemplar is chosen: by hop count, then similarity; by similarity; none (Fig. 4).",
    )
    exemplar_count: int = Field(
        default=1, ge=1, le=5, title="Exemplar count", description="Exemplars that the plan is written after."
    )
    max_steps: int = Field(default=6, ge=1, le=12, title="Plan length", description="Steps of a plan at most.")
    attribution: Literal["model", "attrscore"] = Field(
        default="model",
        title="Attribution",
        description=(
            "Who says whether an answer's passages bear it out: the model, or a scorer such as AttrScore at "
            "HOPGRAPH_ATTRIBUTION_URL."
        ),
    )
    revision: Literal["better", "replace"] = Field(
        default="better",
        title="Revision",
        description="`better` reviews the second answer too and keeps the better one; `replace` is Algorithm 1.",
    )
    review: Literal["none", "human"] = _review("every answer that was reviewed")
    ablate: list[Literal["plan", "review"]] = Field(
        default=[],
        title="Ablations",
        description="`plan`: the question is the only step. `review`: every answer is accepted.",
    )
    prompt_planner: str | None = _prompt("parrag/planner", "planner")
    prompt_actor: str | None = _prompt("parrag/actor", "actor", "reviser")
    prompt_actor_trajectory: str | None = _prompt("parrag/actor_trajectory", "actor")
    prompt_accuracy: str | None = _prompt("parrag/accuracy", "accuracy_judge")
    prompt_attribution: str | None = _prompt("parrag/attribution", "attribution_judge")
    prompt_attrscore: str | None = _prompt("parrag/attrscore", "attribution_judge")
    prompt_refiner: str | None = _prompt("parrag/refiner", "refiner")
    prompt_answer: str | None = _prompt("parrag/answer", "generator")

    def check(self) -> None:
        """A scorer that is asked for has to be named."""
        settings = get_settings()
        if self.attribution == "attrscore" and not (settings.attribution_url or settings.attribution_model):
            raise InputError(
                "attribution: `attrscore` needs a scorer, and neither HOPGRAPH_ATTRIBUTION_URL nor "
                "HOPGRAPH_ATTRIBUTION_MODEL names one",
                hint="serve AttrScore or its like at an OpenAI-compatible endpoint; `attribution=model` does without",
            )


class HanContext(Context):
    """HANRAG: a Revelator that routes, decomposes, refines, and keeps noise away."""

    method = "hanrag"
    paper_retriever = "sparse"
    without_logprobs = "take verdicts by their text (`verdicts=text`) or by the encoder (`revelator=encoder`)"

    route: Route | None = Field(
        default=None, title="Route", description="Instead of the router's: every question takes this path (App. C)."
    )
    revelator: Literal["model", "encoder"] = Field(
        default="model",
        title="Revelator",
        description=(
            "Who routes and judges relevance and ending: the model, or a small trained encoder that costs no call. "
            "Decomposing and refining are the model's."
        ),
    )
    router: Literal["model", "encoder", "oracle"] | None = Field(
        default=None,
        title="Router",
        description=(
            "The same for routing alone. Empty: as the Revelator. `oracle`: it comes with each question (App. C)."
        ),
    )
    relevance: Literal["model", "encoder"] | None = Field(
        default=None, title="Relevance", description="The same for relevance alone. Empty: as the Revelator."
    )
    ending: Literal["model", "encoder"] | None = Field(
        default=None, title="Ending", description="The same for the ending alone. Empty: as the Revelator."
    )
    verdicts: Literal["probability", "text"] = Field(
        default="probability",
        title="Verdicts",
        description="Relevance and ending by the probability of `true`, or, for servers that do not tell it, by text.",
    )
    relevance_threshold: float = Field(
        default=0.5,
        ge=0.0,
        le=1.0,
        title="Relevance threshold",
        description="A passage is kept when its probability of being relevant is at least this.",
    )
    ending_threshold: float = Field(
        default=0.5,
        ge=0.0,
        le=1.0,
        title="Ending threshold",
        description="Retrieval ends when the probability that the chain is enough is at least this.",
    )
    max_steps: int = Field(
        default=5, ge=1, le=20, title="Steps", description="Seed questions of a complex question at most."
    )
    review: Literal["none", "human"] = _review("every verdict about the ending")
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
        if self.by_encoder("router") or self.by_encoder("relevance") or self.by_encoder("ending"):
            from inference.revelator import route

            route(["?"])

    prompt_router: str | None = _prompt("hanrag/router", "router")
    prompt_straightforward: str | None = _prompt("hanrag/straightforward", "generator")
    prompt_decomposer: str | None = _prompt("hanrag/decomposer", "decomposer")
    prompt_refiner: str | None = _prompt("hanrag/refiner", "refiner")
    prompt_relevance: str | None = _prompt("hanrag/relevance", "relevance_discriminator")
    prompt_answer: str | None = _prompt("hanrag/answer", "generator")
    prompt_ending: str | None = _prompt("hanrag/ending", "ending_discriminator")
    prompt_aggregator: str | None = _prompt("hanrag/aggregator", "aggregator")
    prompt_synthesizer: str | None = _prompt("hanrag/synthesizer", "synthesizer")


class PrismContext(Context):
    """PRISM: precision and recall in a loop over evidence sentences."""

    method = "prism"

    max_iterations: int = Field(
        default=3, ge=1, le=10, title="Iterations", description="Rounds of Selector and Adder at most (N)."
    )
    pool_size: int = Field(
        default=20, ge=1, le=100, title="Pool size", description="Candidate passages kept over all searches."
    )
    order: Literal["selector_first", "adder_first"] = Field(
        default="selector_first",
        title="Order",
        description="`adder_first` is the order of the paper's example (App. A.3), which starts from a guess.",
    )
    final: Literal["union", "last"] = Field(
        default="union",
        title="Final evidence",
        description="`union`: all that a Selector kept, and the last Adder's additions. `last`: its last set.",
    )
    answer_from: Literal["sentences", "passages"] = Field(
        default="sentences",
        title="Answer from",
        description="Whether the answer is written from evidence sentences or from their whole passages (Table 7).",
    )
    condition: Literal["prism", "full_context", "oracle_context", "oner", "setwise"] = Field(
        default="prism",
        title="Condition",
        description=(
            "What the paper compares with: all candidates, gold evidence (`gold`), one BM25 search (OneR), or one "
            "call that picks a set out of 20 (SetR)."
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

    prompt_analyzer: str | None = _prompt("prism/analyzer", "analyzer")
    prompt_guess: str | None = _prompt("prism/guess", "guess")
    prompt_selector: str | None = _prompt("prism/selector", "selector")
    prompt_selector_prune: str | None = _prompt("prism/selector_prune", "selector")
    prompt_setwise: str | None = _prompt("prism/setwise", "setwise")
    prompt_adder: str | None = _prompt("prism/adder", "adder")
    prompt_answer: str | None = _prompt("prism/answer", "generator")


class CompactContext(Context):
    """CompactRAG: decompose, resolve on small local models, synthesise."""

    method = "compactrag"
    knowledge_base = True
    paper_retriever = "dense"

    top_k: int = Field(default=5, ge=1, le=100, title="Top k", description="Pairs a sub-question retrieves.")
    retriever: Literal["dense", "paper"] = Field(
        default="dense", title="Retriever", description="Pairs are found by meaning alone, as in the paper."
    )
    max_subquestions: int = Field(
        default=8, ge=1, le=16, title="Sub-questions", description="Sub-questions of a decomposition at most."
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
        """The knowledge base has to be there, and checkpoints that take the places of ours.

        Raises:
            StoreError: The index has no knowledge base, or one of another state of it.
        """
        from inference.checkpoints import check_checkpoint
        from nodes.pairs import pairs_ref
        from nodes.passages import index_ref

        pairs_ref(index_ref(self.index))
        settings = get_settings()
        check_checkpoint("HOPGRAPH_EXTRACTOR", settings.extractor)
        check_checkpoint("HOPGRAPH_REWRITER", settings.rewriter)

    prompt_decomposer: str | None = _prompt("compactrag/decomposer", "decomposer")
    prompt_synthesizer: str | None = _prompt("compactrag/synthesizer", "generator")


class ReaderContext(Context):
    """CompactRAG's reader: a passage into atomic question-answer pairs."""

    method = "compactrag_reader"

    max_tokens: int = Field(
        default=2048, ge=16, le=32768, title="Max tokens", description="Longest completion of one call, in tokens."
    )
    max_pairs: int = Field(
        default=24, ge=1, le=100, title="Pairs", description="Pairs, and atomic facts, of one call at most."
    )
    atomic_facts: bool = Field(
        default=True,
        title="Atomic facts",
        description="Have the facts written out before the pairs, as in the paper; without them half the tokens.",
    )
    verbatim: Literal["drop", "flag"] = Field(
        default="drop",
        title="Not verbatim",
        description="What becomes of a pair whose answer does not stand in the passage word for word.",
    )
    coverage_repair: bool = Field(
        default=False,
        title="Coverage repair",
        description="One more call for the entities that no pair mentions; its tokens are reported apart.",
    )
    prompt_reader: str | None = _prompt("compactrag_reader/reader", "pair_writer")
    prompt_reader_pairs: str | None = _prompt("compactrag_reader/reader_pairs", "pair_writer")
    prompt_coverage: str | None = _prompt("compactrag_reader/coverage", "coverage_repairer")
