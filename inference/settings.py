"""All `HOPGRAPH_*` variables. A call's context overrides them; they override the defaults."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError

from inference.errors import InputError

Folder = Annotated[Path, AfterValidator(Path.expanduser)]


def _user_data_folder() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "hopgraph"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "hopgraph"


Role = Literal["llm", "generator", "synthesizer", "accuracy", "attribution", "judge"]
"""Role of a model: default; answer generation; the answer that concludes from answers to sub-questions; accuracy of a
step's answer; support of an answer by passages; judging answers in an evaluation."""


class Server(NamedTuple):
    """Server of a role's model."""

    url: str | None
    """None: the embedded model."""
    model: str | None
    key: SecretStr | None
    role: Role
    """Role whose variables name the server; `llm`: the default one."""

    @property
    def own(self) -> bool:
        """Whether it is not the default server."""
        return self.role != "llm"


class Settings(BaseSettings):
    """Settings from the environment; the variable of field `x` is `HOPGRAPH_X`."""

    model_config = SettingsConfigDict(
        env_prefix="HOPGRAPH_", extra="ignore", env_ignore_empty=True, str_strip_whitespace=True
    )

    home: Folder = Field(default_factory=_user_data_folder)
    """Folder of indexes, weights and the checkpoints of `ask`; by default, nothing is written elsewhere."""
    prompts: Folder | None = None
    """Overlay folder: a file of the same name in it replaces a prompt."""
    exemplars: Folder | None = None
    """A file of exemplars for PAR-RAG's planner that replaces stores/exemplars.md, in the same format."""
    cache: Literal["on", "off"] = "off"
    """Whether to reuse model replies of earlier runs."""
    checkpoints: str | None = None
    """Checkpoint store of `ask` and of the servers: a SQLite file (default: HOME/checkpoints.sqlite), or
    postgresql://..., which `eval` uses too, instead of a file in its run's folder."""
    checkpoints_patience: float = Field(default=120.0, ge=0, le=86_400)
    """Maximum seconds to wait for a Postgres of checkpoints that is away (restart, failover). Then the run stops, and
    can be resumed."""

    llm_url: str | None = None
    """Base URL of an OpenAI-compatible endpoint, such as http://127.0.0.1:8000/v1, or of several servers of the same
    model, separated by commas. Unset: the embedded model."""
    llm_model: str | None = None
    """Model name at that endpoint. Unset: the only one it serves."""
    llm_api_key: SecretStr | None = None
    """API key of that endpoint, if required. Never written anywhere."""
    llm_context: int | None = Field(default=None, ge=256)
    """Model context in tokens that prompts must fit. Unset: what the server reports."""
    llm_concurrency: Annotated[int, Field(ge=1, le=4096)] | Literal["auto"] = "auto"
    """Maximum model calls in flight per server. auto: adapts to the server's capacity."""
    llm_timeout: float = Field(default=300.0, gt=0, le=86_400)
    """Time-out of one model call, in seconds."""
    llm_patience: float = Field(default=300.0, ge=0, le=86_400)
    """Maximum seconds from a call's first failure to its last retry. A refused connection, a time-out, 408, 429 or 5xx
    is retried with exponential backoff. Then the run stops, and can be resumed."""
    llm_retries: int = Field(default=100, ge=0, le=1000)
    """Maximum number of retries of a call within HOPGRAPH_LLM_PATIENCE."""
    llm_extra: dict[str, Any] = Field(default_factory=dict)
    """Additional request fields as a JSON object, such as
    {"repetition_penalty": 1.1, "chat_template_kwargs": {"enable_thinking": false}}."""
    generator_url: str | None = None
    """Base URL of another endpoint for answer generation. Unset: the same."""
    generator_model: str | None = None
    """Model for answer generation. Unset: the same, or the only one of the other endpoint."""
    generator_api_key: SecretStr | None = None
    """API key of that endpoint, if required."""
    synthesizer_url: str | None = None
    """Base URL of an endpoint whose model concludes from the answers to sub-questions (HANRAG, PAR-RAG, CompactRAG).
    Unset: the generator's."""
    synthesizer_model: str | None = None
    """Model name there. Unset: the generator's, or the only one of the other endpoint."""
    synthesizer_api_key: SecretStr | None = None
    """API key of that endpoint, if required."""
    accuracy_url: str | None = None
    """Base URL of an endpoint whose model scores the accuracy of steps' answers in PAR-RAG. Unset: the same."""
    accuracy_model: str | None = None
    """Model name there. Unset: the same, or the only one of the other endpoint."""
    accuracy_api_key: SecretStr | None = None
    """API key of that endpoint, if required."""
    attribution_url: str | None = None
    """Base URL of an endpoint that serves AttrScore or a similar model, for PAR-RAG's `attribution=attrscore`."""
    attribution_model: str | None = None
    """Model name there. Unset: the only one it serves."""
    attribution_api_key: SecretStr | None = None
    """API key of that endpoint, if required."""
    judge_url: str | None = None
    """Base URL of an endpoint whose model judges answers in an evaluation. Unset: the same."""
    judge_model: str | None = None
    """Model name there. Unset: the same, or the only one of the other endpoint."""
    judge_api_key: SecretStr | None = None
    """API key of that endpoint, if required."""
    embedded_model: str = "smollm2"
    """Model of the embedded server, which is used if HOPGRAPH_LLM_URL is unset: smollm2, or a GGUF file."""
    embedded_lora: Literal["auto", "none"] | Folder = "auto"
    """A LoRA adapter for it: auto (the bundled one, for smollm2 only), none, or a GGUF file (`make train-agents` writes
    one, from a clone of the repository)."""
    embedded_synthesizer_lora: Literal["auto", "none"] | Folder = "auto"
    """The adapter for calls that conclude from the answers to sub-questions: auto (the bundled one for these where
    HOPGRAPH_EMBEDDED_LORA is auto, otherwise the same as that), none, or a GGUF file. If it differs, it has a server of
    its own."""
    embedded_parallel: int = Field(default=4, ge=1, le=256)
    """Parallel requests of the embedded server; each takes memory for its own context."""
    embedded_context: int = Field(default=8192, ge=256)
    """Tokens of context per request, capped at the model's training context."""
    embedded_idle: float = Field(default=30.0, ge=0)
    """Seconds the embedded server keeps running after its last client has exited."""

    api_key: SecretStr | None = None
    """API key that clients of `hopgraph serve` have to send; required unless it listens on 127.0.0.1."""

    otel: Literal["on", "off"] = "off"
    """Whether to export runs as OpenTelemetry spans to OTEL_EXPORTER_OTLP_ENDPOINT."""
    otel_texts: Literal["on", "off"] = "off"
    """Whether spans include prompts, replies and answers."""

    extractor: Folder | None = None
    """An ONNX question-answering checkpoint (such as RoBERTa) that replaces CompactRAG's answer extractor."""
    rewriter: Folder | None = None
    """An ONNX sequence-to-sequence checkpoint (such as Flan-T5) that replaces CompactRAG's sub-question rewriter."""

    embed_url: str | None = None
    """Base URL of an OpenAI-compatible embeddings endpoint. Unset: the built-in MiniLM encoder."""
    embed_model: str | None = None
    """Model name at that embeddings endpoint."""
    embed_api_key: SecretStr | None = None
    """API key of that endpoint, if required."""
    embed_query_prefix: str | None = None
    """Text put before every query. Unset: the model's default."""
    embed_passage_prefix: str | None = None
    """Text put before every passage. Unset: the model's default."""
    rerank_url: str | None = None
    """Base URL of a server with `/rerank` (vLLM, Jina, Cohere), for `rerank=model`. Unset: HOPGRAPH_RERANK_MODEL is a
    folder."""
    rerank_model: str | None = None
    """Model name there; without a server, a folder with an ONNX cross-encoder (model.onnx, tokenizer.json)."""
    rerank_api_key: SecretStr | None = None
    """API key of that server, if required."""
    rerank_timeout: float = Field(default=30.0, gt=0, le=3600)
    """Time-out of one rerank request, in seconds. A failed one is retried for 10 seconds at most; then the search
    keeps its order."""
    chroma_url: str | None = None
    """A Chroma server, such as http://127.0.0.1:8100, or several, separated by commas, for an index in shards. Unset:
    embedded Chroma."""

    def server(self, role: Role) -> Server:
        """The role's server, or the default one; with the role's model, or the default one. The synthesizer's default
        is the generator's."""
        if role == "synthesizer" and self.synthesizer_url is None:
            default = self.server("generator")
            return default._replace(model=self.synthesizer_model or default.model)
        url: str | None = getattr(self, f"{role}_url")
        model: str | None = getattr(self, f"{role}_model")
        if url is not None:
            return Server(url, model, getattr(self, f"{role}_api_key"), role)
        return Server(self.llm_url, model or self.llm_model, self.llm_api_key, "llm")


def unknown_variables() -> list[str]:
    """A warning for each unknown `HOPGRAPH_*` variable of the environment, with the nearest known one."""
    from difflib import get_close_matches

    known = [name.upper() for name in Settings.model_fields]
    lines = []
    for variable in sorted(os.environ):
        # Names are case-insensitive.
        name = variable.upper().removeprefix("HOPGRAPH_")
        if name != variable.upper() and name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean HOPGRAPH_{near[0]}?" if near else ""
            lines.append(f"environment variable {variable}: unknown and ignored{hint}")
    return lines


_overrides: dict[str, Any] = {}


@lru_cache(maxsize=1)
def get_settings() -> Settings:
    """Settings from the environment at the first call (`get_settings.cache_clear()` reads it again).

    `overridden` takes precedence over the environment.

    Raises:
        InputError: A variable has a value of the wrong type or out of bounds; the message names it.
    """
    try:
        return Settings(**_overrides)
    except SettingsError as error:
        field = re.search(r'field "(\w+)"', str(error))
        name = "HOPGRAPH_" + (field[1].upper() if field else "*")
        raise InputError(
            f"environment variable {name}: not JSON", hint='for example {"repetition_penalty": 1.1}'
        ) from None
    except ValidationError as error:
        first = error.errors()[0]["loc"][0]
        name = "HOPGRAPH_" + str(first).upper()
        wrong = ", or ".join(one["msg"] for one in error.errors() if one["loc"][0] == first)
        raise InputError(f"environment variable {name}: {wrong}", hint=f"set or unset {name}") from None


@contextmanager
def overridden(**values: Any) -> Iterator[None]:
    """Override settings of this process for the duration of the context, by field name."""
    before = dict(_overrides)
    _overrides.update(values)
    get_settings.cache_clear()
    try:
        yield
    finally:
        _overrides.clear()
        _overrides.update(before)
        get_settings.cache_clear()
