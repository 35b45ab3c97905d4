"""Settings that every method has. Every field says what it is and its bounds."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from inference.errors import InputError
from inference.settings import Role
from prompts.loader import is_same_text, prompt_text

if TYPE_CHECKING:
    from inference.heads.revelator import Route

__all__ = ["Context", "Retriever", "prompt_field", "review_field"]

Retriever = Literal["hybrid", "dense", "sparse"]


def prompt_field(name: str, *nodes: str, title: str = "") -> Any:
    """A field that takes the place of prompt `name` in `nodes`; its title is the prompt's role, or the one given."""
    role = name.partition("/")[2].replace("_", " ")
    return Field(
        default=None,
        title=f"Prompt: {title or role}",
        description=f"Text used instead of prompts/{name}.md, with the same variables. Empty or unchanged: the file's.",
        json_schema_extra={"langgraph_nodes": list(nodes), "langgraph_type": "prompt", "prompt": name},
    )


def review_field(verdict: str) -> Any:
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

    def gold_route(self, route: Route) -> str:
        """The method's own name for a gold route, which an oracle router is shown."""
        return route

    @property
    def roles(self) -> tuple[Role, ...]:
        """Models that these settings ask beside the one that answers."""
        return ()

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
