"""One OpenAI-compatible chat endpoint (vLLM first): bounded concurrency, bounded retries, typed errors."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from inference.errors import EndpointError, InputError, PromptTooLong
from inference.settings import Settings, get_settings
from inference.structured import Token, well_formed

if TYPE_CHECKING:
    import httpx
    from langchain_core.messages import AIMessage
    from langchain_openai import ChatOpenAI

__all__ = ["Endpoint", "Message", "Reply", "ResponseCache", "Schema", "ServerInfo", "get_endpoint"]

RETRIED_STATUS = frozenset({408, 409, 425, 429})
"""Besides every 5xx. A 400 is the request's fault and comes back the same."""
MAX_BACKOFF = 30.0
_THINKING = re.compile(r"\A\s*<think>.*?</think>\s*", re.DOTALL)
_UNFINISHED_THINKING = re.compile(r"\A\s*<think>.*\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Schema:
    """A JSON schema the reply must follow; its name reaches the server's log."""

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """A completion."""

    text: str
    """Without the reasoning of a thinking model."""
    model: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    finish_reason: str
    started: float
    seconds: float
    tokens: tuple[Token, ...] = ()
    """All generated tokens with log-probabilities; empty unless asked for and given."""
    cached: bool = False


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a server says of itself."""

    kind: Literal["vllm", "llama.cpp", "other"]
    models: tuple[str, ...]
    context: int | None
    """Context in tokens, prompt and completion together; None where the server does not say."""


class ResponseCache(Protocol):
    """Keeps replies by key; see `stores.responses`."""

    async def get(self, key: str) -> str | None:
        """The stored reply, or None."""

    async def put(self, key: str, value: str) -> None:
        """Store a reply."""


@dataclass(eq=False)
class Endpoint:
    """A chat model behind an OpenAI-compatible server.

    Args:
        url: Base URL that ends in /v1.
        model: Model name, or "" for the only one the server has.
        settings: Time-outs, retries, concurrency, key, further request fields.
        locate: Gives the URL anew when the server can't be reached: an embedded server may have been started again.
    """

    url: str
    model: str
    settings: Settings
    locate: Callable[[], str] | None = None
    _info: ServerInfo | None = field(default=None, init=False)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(
                f"HOPGRAPH_LLM_URL: not an http(s) URL: {self.url!r}", hint="for example http://127.0.0.1:8000/v1"
            )
        self._slots = asyncio.Semaphore(self.settings.llm_concurrency)
        self._connect()

    def _connect(self) -> None:
        import httpx
        from langchain_openai import ChatOpenAI

        key = self.settings.llm_api_key
        limit = self.settings.llm_concurrency
        self._http = httpx.AsyncClient(
            timeout=httpx.Timeout(self.settings.llm_timeout, connect=10.0),
            limits=httpx.Limits(max_connections=limit + 4, max_keepalive_connections=limit + 4),
            # A proxy from the environment makes no sense for a server on this machine.
            trust_env=urlsplit(self.url).hostname not in ("127.0.0.1", "localhost", "::1"),
            headers={"Authorization": f"Bearer {key.get_secret_value()}"} if key else {},
        )
        self._chat: ChatOpenAI = ChatOpenAI(
            model=self.model or "unnamed",
            base_url=self.url,
            api_key=key or _no_key(),
            max_retries=0,
            timeout=self.settings.llm_timeout,
            http_async_client=self._http,
            use_responses_api=False,
            disable_streaming=True,
        )

    async def describe(self) -> ServerInfo:
        """Ask the server which models it has and how long their context is (asked once).

        Raises:
            EndpointError: It can't be reached, wants a key, or is no OpenAI-compatible server.
        """
        async with self._lock:
            if self._info is None:
                self._info = await self._ask_server()
        return self._info

    async def _ask_server(self) -> ServerInfo:
        import httpx

        try:
            answer = await self._http.get(f"{self.url}/models", timeout=min(30.0, self.settings.llm_timeout))
            if answer.status_code in (401, 403):
                raise self._refused(answer.status_code, "")
            rows = [row for row in answer.json()["data"] if isinstance(row, dict)]
            models = tuple(str(row["id"]) for row in rows)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from None
        except (ValueError, KeyError, TypeError):
            raise EndpointError(
                f"{self.url}/models did not answer like an OpenAI-compatible server",
                hint="check HOPGRAPH_LLM_URL; it usually ends in /v1",
            ) from None
        row = next((row for row in rows if row["id"] == self.model), rows[0] if rows else {})
        if isinstance(row.get("max_model_len"), int):
            return ServerInfo("vllm", models, row["max_model_len"])
        if row.get("owned_by") == "llamacpp":
            return ServerInfo("llama.cpp", models, await self._llama_context())
        return ServerInfo("other", models, None)

    async def _llama_context(self) -> int | None:
        import httpx

        try:
            answer = await self._http.get(f"{self._root}/props", timeout=10.0)
            return int(answer.json()["default_generation_settings"]["n_ctx"])
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            return None

    @property
    def _root(self) -> str:
        return self.url.removesuffix("/").removesuffix("/v1")

    async def model_name(self) -> str:
        """The model that will be asked: the one named, else the only one the server has.

        Raises:
            InputError: None is named and the server has several, or none.
        """
        if not self.model:
            models = (await self.describe()).models
            if len(models) != 1:
                raise InputError(
                    f"HOPGRAPH_LLM_MODEL is not set; {self.url} has {len(models)} models: {', '.join(models[:10])}",
                    hint="name one of them in HOPGRAPH_LLM_MODEL",
                )
            self.model = models[0]
        return self.model

    async def context(self) -> int | None:
        """Tokens that a prompt and its completion have together; None if nobody says."""
        return self.settings.llm_context or (await self.describe()).context

    async def fits(self, messages: Sequence[Message], max_tokens: int) -> bool:
        """Whether a prompt leaves room for `max_tokens` of completion.

        A prompt of at most half a token a byte is taken to fit unasked; a longer one is counted by the server's
        tokenizer, and where it has none, at a third of a token a byte.
        """
        limit = await self.context()
        size = sum(len(message.content.encode()) + 16 for message in messages)
        if limit is None or size / 2 + max_tokens <= limit:
            return True
        counted = await self._count(messages) if size < 64 * limit else None
        return (counted if counted is not None else size / 3) + max_tokens <= limit

    async def _count(self, messages: Sequence[Message]) -> int | None:
        """Prompt length in tokens by the server's own tokenizer (vLLM and llama.cpp have one)."""
        import httpx

        chat = [asdict(message) for message in messages]
        body = {"model": self.model, "messages": chat, "content": "\n".join(message.content for message in messages)}
        if (await self.describe()).kind == "vllm":
            del body["content"]
        try:
            answer = (await self._http.post(f"{self._root}/tokenize", json=body, timeout=30.0)).json()
        except (httpx.HTTPError, ValueError):
            return None
        if isinstance(answer, dict) and isinstance(answer.get("count"), int):
            return int(answer["count"])
        if isinstance(answer, dict) and isinstance(answer.get("tokens"), list):
            return len(answer["tokens"]) + 8 * (len(messages) + 1)  # the chat template's own tokens
        return None

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        request_id: str,
        schema: Schema | None = None,
        temperature: float = 0.0,
        max_tokens: int = 512,
        seed: int | None = None,
        top_logprobs: int | None = None,
        cache: ResponseCache | None = None,
    ) -> Reply:
        """Ask for one completion.

        Args:
            messages: The prompt.
            request_id: Sent as `X-Request-Id`.
            schema: The reply must be JSON of this schema.
            temperature: 0 is greedy.
            max_tokens: Longest completion.
            seed: For servers that sample reproducibly.
            top_logprobs: Return log-probabilities of the tokens, with this many alternatives (0: none of them).
            cache: Look here first, and store the reply here.

        Raises:
            EndpointError: The server can't be reached, refuses, or answers with something else; after the retries.
            PromptTooLong: The server says that the prompt does not fit its context.
        """
        body: dict[str, Any] = {**self.settings.llm_extra, "temperature": temperature, "max_tokens": max_tokens}
        if seed is not None:
            body["seed"] = seed
        if schema is not None:
            json_schema = {"name": schema.name, "schema": schema.schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": json_schema}
        if top_logprobs is not None:
            body |= {"logprobs": True, **({"top_logprobs": top_logprobs} if top_logprobs else {})}
        model = await self.model_name()
        key = cache_key(self.url, model, messages, body)
        if cache is not None and (stored := await cache.get(key)) is not None:
            return _unpack(stored)
        async with self._slots:
            reply = await self._request(messages, model, request_id, body)
        if cache is not None and reply.finish_reason != "length":
            await cache.put(key, _pack(reply))
        return reply

    async def _request(self, messages: Sequence[Message], model: str, request_id: str, body: dict[str, Any]) -> Reply:
        """One request with its retries; a server's `Retry-After` is honoured."""
        from tenacity import (
            AsyncRetrying,
            RetryCallState,
            retry_if_exception,
            stop_after_attempt,
            wait_exponential_jitter,
        )

        backoff = wait_exponential_jitter(initial=0.5, max=MAX_BACKOFF)

        def wait(state: RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome else None
            return max(backoff(state), min(MAX_BACKOFF, _retry_after(error)))

        retrying = AsyncRetrying(
            stop=stop_after_attempt(self.settings.llm_retries + 1),
            wait=wait,
            retry=retry_if_exception(_worth_retrying),
            before_sleep=self._relocate,
            reraise=True,
        )
        try:
            return await retrying(self._once, messages, model, request_id, body)
        except Exception as error:
            raise self._explain(error) from error

    async def _once(self, messages: Sequence[Message], model: str, request_id: str, body: dict[str, Any]) -> Reply:
        started = time.time()
        clock = time.perf_counter()
        message = await self._chat.ainvoke(
            [(m.role, m.content) for m in messages],
            model=model,
            extra_headers={"X-Request-Id": request_id},
            # In `extra_body` nothing is interpreted by the client: its own structured-output path loses cut replies.
            extra_body=body,
        )
        return _reply(message, model, started, time.perf_counter() - clock)

    async def _relocate(self, _: Any) -> None:
        if self.locate is None:
            return
        url = await asyncio.to_thread(self.locate)
        if url != self.url:
            self.url = url
            self._connect()

    def _explain(self, error: Exception) -> EndpointError:
        import openai

        if isinstance(error, EndpointError):
            return error
        if isinstance(error, openai.APITimeoutError):
            return EndpointError(
                f"{self.url} did not answer within {self.settings.llm_timeout:g} s",
                hint="raise HOPGRAPH_LLM_TIMEOUT, or see whether the server is overloaded",
            )
        if isinstance(error, openai.APIConnectionError):
            return self._unreachable(error.__cause__ or error)
        if isinstance(error, openai.APIStatusError):
            return self._refused(error.status_code, _detail(error))
        return EndpointError(
            f"{self.url} answered with something that is not a chat completion: {_short(error)}",
            hint="check HOPGRAPH_LLM_URL; is there a proxy or another program at this address?",
        )

    def _unreachable(self, cause: BaseException) -> EndpointError:
        return EndpointError(
            f"can't reach the model's server at {self.url}: {type(cause).__name__}: {_short(cause)}",
            hint="is it running? `hopgraph doctor` tells more; unset HOPGRAPH_LLM_URL for the embedded model",
        )

    def _refused(self, status: int, detail: str) -> EndpointError:
        said = f": {detail}" if detail else ""
        lowered = detail.lower()
        if status == 400 and "context" in lowered and ("length" in lowered or "exceed" in lowered or "size" in lowered):
            return PromptTooLong(f"the prompt does not fit the model's context{said}", hint="set HOPGRAPH_LLM_CONTEXT")
        hints = {
            401: "set HOPGRAPH_LLM_API_KEY",
            403: "set HOPGRAPH_LLM_API_KEY",
            404: "check HOPGRAPH_LLM_URL (it usually ends in /v1) and HOPGRAPH_LLM_MODEL",
            429: "the server is rate-limited: lower HOPGRAPH_LLM_CONCURRENCY",
        }
        return EndpointError(
            f"{self.url} refused the request with status {status}{said}",
            hint=hints.get(status, "see the server's log"),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


_endpoints: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str], Endpoint]] = WeakKeyDictionary()


def get_endpoint(url: str | None = None, model: str | None = None) -> Endpoint:
    """The endpoint of `url` and `model`: one object an event loop, so that its concurrency limit holds for all runs.

    Without a URL here or in HOPGRAPH_LLM_URL the embedded model's server is started, or the one that runs is used.
    Blocks while that happens: call it in a thread from async code that must not wait. Call it with a running loop.
    """
    settings = get_settings()
    url = url or settings.llm_url
    locate: Callable[[], str] | None = None
    if url is None:
        locate = _embedded_url
        url = locate()
    else:
        model = model or settings.llm_model
    known = _endpoints.setdefault(asyncio.get_running_loop(), {})
    place = ("" if locate else url, model or "")
    if place not in known:
        known[place] = Endpoint(url.rstrip("/"), model or "", settings, locate)
    return known[place]


def _embedded_url() -> str:
    from inference.embedded import ensure_server

    return ensure_server(get_settings().embedded_model).url


def cache_key(url: str, model: str, messages: Sequence[Message], body: Mapping[str, Any]) -> str:
    """Key of a request in a response cache: everything the reply depends on."""
    request = [url, model, [asdict(message) for message in messages], body]
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def _no_key() -> Any:
    from pydantic import SecretStr

    return SecretStr("none")


def _worth_retrying(error: BaseException) -> bool:
    import openai

    if isinstance(error, openai.APIStatusError):
        return error.status_code in RETRIED_STATUS or error.status_code >= 500
    return isinstance(error, openai.APIConnectionError)


def _retry_after(error: BaseException | None) -> float:
    response: httpx.Response | None = getattr(error, "response", None)
    try:
        return float(response.headers.get("retry-after", 0)) if response is not None else 0.0
    except ValueError:
        return 0.0


def _detail(error: Any) -> str:
    body = error.body
    if isinstance(body, dict):
        inner = body.get("error", body)
        message = inner.get("message") if isinstance(inner, dict) else inner
        if message:
            return _short(message)
    return _short(error.message)


def _short(what: object, limit: int = 300) -> str:
    text = " ".join(re.sub(r"<[^>]*>", " ", str(what)).split())
    return text if len(text) <= limit else text[:limit] + "..."


def _reply(message: AIMessage, model: str, started: float, seconds: float) -> Reply:
    content = message.content if isinstance(message.content, str) else str(message.text)
    meta = message.response_metadata
    usage: Mapping[str, Any] = message.usage_metadata or {}
    finish_reason = str(meta.get("finish_reason") or "")
    content = _THINKING.sub("", content)
    content = _UNFINISHED_THINKING.sub("", content)
    rows = (meta.get("logprobs") or {}).get("content") or []
    return Reply(
        text=well_formed(content),
        model=str(meta.get("model_name") or model),
        prompt_tokens=int(usage.get("input_tokens") or 0),
        completion_tokens=int(usage.get("output_tokens") or 0),
        cached_tokens=int((usage.get("input_token_details") or {}).get("cache_read") or 0),
        finish_reason=finish_reason,
        started=started,
        seconds=seconds,
        tokens=tuple(_token(row) for row in rows),
    )


def _token(row: Mapping[str, Any]) -> Token:
    def raw(entry: Mapping[str, Any]) -> bytes:
        return bytes(entry["bytes"]) if entry.get("bytes") is not None else str(entry["token"]).encode()

    top = {raw(entry).decode(errors="replace"): float(entry["logprob"]) for entry in row.get("top_logprobs") or []}
    return Token(raw(row), float(row["logprob"]), top)


def _pack(reply: Reply) -> str:
    fields = asdict(reply) | {"tokens": [[t.text.hex(), t.logprob, t.top] for t in reply.tokens]}
    return json.dumps(fields)


def _unpack(stored: str) -> Reply:
    fields = json.loads(stored)
    fields["tokens"] = tuple(Token(bytes.fromhex(text), logprob, top) for text, logprob, top in fields["tokens"])
    return Reply(**fields | {"cached": True, "started": time.time(), "seconds": 0.0})
