"""Settings common to all methods. Every field has a description and bounds."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from inference.errors import InputError
from inference.settings import Role, get_settings
from prompts.loader import is_same_text, prompt_text
from stores.where import parse_where

if TYPE_CHECKING:
    from inference.heads.revelator import Route

Retriever = Literal["hybrid", "dense", "sparse", "bridge"]


def prompt_field(name: str, *nodes: str, title: str = "") -> Any:
    """A field that overrides prompt `name` in `nodes`; its default title is the prompt's role."""
    role = name.partition("/")[2].replace("_", " ")
    return Field(
        default=None,
        title=f"Prompt: {title or role}",
        description=f"Text used instead of prompts/{name}.md, with the same variables. Empty or unchanged: the file's.",
        json_schema_extra={"langgraph_nodes": list(nodes), "langgraph_type": "prompt", "prompt": name},
    )


def review_field(verdict: str) -> Any:
    """A field that enables human review of a verdict."""
    return Field(
        default="none",
        title="Review",
        description=f"`human`: the run stops at {verdict} and waits for a person to confirm or overrule it.",
    )


class Context(BaseModel):
    """Settings common to all methods."""

    model_config = ConfigDict(extra="forbid", validate_default=True)

    method: ClassVar[str] = ""
    """The method's id."""
    paper: ClassVar[dict[str, Any]] = {}
    """The paper's settings that differ from the defaults."""
    concludes: ClassVar[bool] = False
    """Whether the synthesizer's model writes the last answer, from answers to sub-questions."""
    embedded: ClassVar[dict[str, Any]] = {}
    """Defaults while the embedded model answers, where they differ: it reads slowly, and decides some things badly."""
    paper_retriever: ClassVar[Retriever] = "hybrid"
    searches: ClassVar[bool] = True
    """Whether the method needs an index if no passages are given."""
    knowledge_base: ClassVar[bool] = False
    """Whether the method answers from question-answer pairs that a reader extracted from the index."""
    may_change: ClassVar[frozenset[str]] = frozenset(
        {"model", "generator_model", "temperature", "max_tokens", "seed", "node_timeout", "run_timeout"}
    )
    """Settings that may change when a run is resumed: how the model is called, not what the run does."""
    without_logprobs: ClassVar[str] = "leave out what needs them (`ablate`)"
    """Hint for servers without log-probabilities."""

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
    retriever: Literal["hybrid", "dense", "sparse", "bridge", "paper"] = Field(
        default="bridge",
        title="Retriever",
        description=(
            "`dense` and `sparse` search one half of the index, `hybrid` fuses both; `bridge` gives some of hybrid's "
            "places to passages that its best hits name; `paper` is the retriever of the method's paper."
        ),
    )
    where: str | None = Field(
        default=None,
        title="Where",
        description=(
            'Search only passages whose metadata meet this filter, such as `year >= 2020 and author = "Lee"`. '
            "Passages given with the question are not filtered."
        ),
    )
    rerank: Literal["off", "model", "listwise"] = Field(
        default="off",
        title="Rerank",
        description=(
            "Retrieve four times as many passages and keep the most relevant: `model` scores them by the cross-encoder "
            "of HOPGRAPH_RERANK_URL or HOPGRAPH_RERANK_MODEL, `listwise` has the chat model rank them (RankGPT)."
        ),
    )
    preset: Literal["default", "paper"] = Field(
        default="default",
        title="Preset",
        description=(
            "`paper` uses the paper's settings for everything not set explicitly. `default` without HOPGRAPH_LLM_URL "
            "has some defaults that suit the embedded model."
        ),
    )
    abstain: Literal["on", "off"] = Field(
        default="on",
        title="Abstain",
        description=(
            '`off`: the final answer is the most likely one, never "unanswerable". Earlier steps may still abstain.'
        ),
    )
    temperature: float = Field(
        default=0.0, ge=0.0, le=2.0, title="Temperature", description="Sampling temperature; 0 is greedy."
    )
    max_tokens: int = Field(
        default=512, ge=16, le=32768, title="Max tokens", description="Maximum completion length of a call, in tokens."
    )
    seed: int | None = Field(
        default=0, ge=0, le=2**31 - 1, title="Seed", description="Sampling seed, for servers that support one."
    )

    node_timeout: float | None = Field(
        default=None,
        gt=0,
        le=604_800,
        title="Node deadline",
        description="Time limit of a node in seconds, including waiting for the endpoint. Empty: none.",
    )
    run_timeout: float | None = Field(
        default=None,
        gt=0,
        le=604_800,
        title="Run deadline",
        description="Time limit of a run in seconds; a resumed run has the same time again. Empty: none.",
    )

    @model_validator(mode="before")
    @classmethod
    def _apply_preset(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        if values.get("preset") == "paper":
            return {"retriever": "paper", **cls.paper, **values}
        return {**cls.of_embedded(), **values}

    @model_validator(mode="before")
    @classmethod
    def _unchanged_prompt_is_unset(cls, values: Any) -> Any:
        """Forms send the text they show: an unchanged one means the file, including its later edits."""
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
        """The schema of Studio's form: defaults for the model in use; a prompt's field shows the file's text."""
        made = handler(schema)
        fields = handler.resolve_ref_schema(made)["properties"]
        for field, value in cls.of_embedded().items():
            fields[field]["default"] = value
        for field, name in cls.prompts().items():
            with suppress(InputError):  # a malformed file; a run reports it
                fields[field]["default"] = prompt_text(name)
                fields[field]["type"] = fields[field].pop("anyOf", [{"type": "string"}])[0]["type"]
        return made

    @model_validator(mode="after")
    def _blank_is_unset(self) -> Self:
        for name in type(self).model_fields:
            if getattr(self, name) == "" and type(self).model_fields[name].default is None:
                self.__dict__[name] = None
        return self

    @field_validator("where")
    @classmethod
    def _where_is_a_filter(cls, text: str | None) -> str | None:
        if text is None or not text.strip():
            return None
        try:
            parse_where(text)
        except InputError as error:
            raise PydanticCustomError(
                "where", "{problem}", {"problem": error.message.removeprefix("where, ")}
            ) from None
        return text

    @property
    def mode(self) -> Retriever:
        """The store's search mode."""
        return self.paper_retriever if self.retriever == "paper" else self.retriever

    @property
    def oracle(self) -> Literal["", "evidence", "route", "complexity"]:
        """The gold that these settings require; "": none, as for every real method."""
        return ""

    def gold_route(self, route: Route) -> str:
        """The method's name for a gold route, given to an oracle router."""
        return route

    @property
    def roles(self) -> tuple[Role, ...]:
        """Roles of models that these settings use in addition to the answering one."""
        from inference.embedded_model import is_separate

        settings = get_settings()
        other = settings.synthesizer_url or settings.synthesizer_model or is_separate(settings, "synthesizer")
        return ("synthesizer",) if self.concludes and other else ()

    def check(self) -> None:
        """Check that everything these settings refer to is available; called when a run begins.

        Raises:
            InputError: Something is missing; the message names the setting.
            StoreError: Trained weights can't be read.
        """
        if self.rerank == "model":
            from inference.rerankers.configured import check_reranker

            check_reranker()

    def threshold_of(self, node: str) -> float | None:
        """The threshold of a node's score; None if nothing depends on it."""
        return getattr(self, "threshold", None)

    def prompt_override(self, name: str) -> str | None:
        """The text that this call uses instead of prompt `name`."""
        return self.prompt_overrides().get(name)

    def prompt_overrides(self) -> dict[str, str]:
        """All prompts that this call replaces, by name."""
        return {name: text for field, name in self.prompts().items() if (text := getattr(self, field))}

    @classmethod
    def of_embedded(cls) -> dict[str, Any]:
        """`embedded` where that model answers; else empty."""
        return cls.embedded if get_settings().llm_url is None else {}

    @classmethod
    def prompts(cls) -> dict[str, str]:
        """The method's prompts: context field -> prompt name."""
        extras = {name: field.json_schema_extra for name, field in cls.model_fields.items()}
        return {
            name: str(extra["prompt"])
            for name, extra in extras.items()
            if isinstance(extra, dict) and "prompt" in extra
        }
