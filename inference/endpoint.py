"""One OpenAI-compatible chat endpoint (vLLM first): bounded concurrency, bounded retries, typed errors."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from inference import drain
from inference.adaptive import OPENING
from inference.base_url import meant
from inference.chat import Message, Reply, Schema, cache_key, name_of, pack_reply, read_reply, unpack_reply
from inference.errors import EndpointError, HopgraphError, InputError, PromptTooLong, did_you_mean
from inference.http import Connections, Refusal, may_pass, passes, root_cause, seconds_to_wait
from inference.json_forms import SCHEMA_ROOM, JsonForm, form_of, in_form, refuses_form, weaker
from inference.limiter import Limiter, current_priority
from inference.patience import out_of_patience
from inference.settings import Role, Settings, get_settings
from inference.sse import on_text, post_streamed

if TYPE_CHECKING:
    from tenacity import AsyncRetrying, RetryCallState

__all__ = ["Endpoint", "ResponseCache", "ServerInfo", "calls_at_once", "get_endpoint", "limiters"]

_log = logging.getLogger(__name__)
FIRST_BACKOFF, MAX_BACKOFF = 0.5, 30.0
"""Seconds before the first further try, and at most before any."""
_LOAD_PAUSE = 0.5
"""Seconds between two questions to a server how busy it is, once its limit is known."""
_OVERLOADED = frozenset({429, 503, 529})
_WORTH_SAYING = 1.0
"""Seconds of a pause that a person is told of."""
_TEMPLATE_TOKENS = 32
"""A chat template's own tokens, for each message and for a default system message."""
_MESSAGE = 300
"""Characters of a server's message that are shown."""
_RESERVED = frozenset(
    {"model", "messages", "temperature", "max_tokens", "seed", "response_format", "logprobs", "top_logprobs"}
    | {"stream", "n"}
)
"""Request fields that HOPGRAPH_LLM_EXTRA can't set: the caller does, or the reply could not be read."""
_TOO_LONG = re.compile(r"context.*(length|size|window|exceed)|exceed.*context|maximum model length|prompt is too long")
_UNFINISHED = frozenset({"length", "content_filter", "abort", "error"})
"""Finish reasons of replies that another try may better: they are not cached."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a server says of itself."""

    kind: Literal["vllm", "llama.cpp", "other"]
    models: tuple[str, ...]
    context: int | None
    """Context in tokens, prompt and completion together; None where the server does not say."""
    slots: int | None = None
    """Requests that it works on at a time; None where it does not say."""


class ResponseCache(Protocol):
    """Keeps replies by key; see `stores.responses`."""

    async def get(self, key: str) -> str | None:
        """The stored reply, or None."""

    async def put(self, key: str, value: str) -> None:
        """Store a reply."""


class Endpoint:
    """A chat model behind an OpenAI-compatible server.

    Args:
        url: Base URL that ends in /v1.
        model: Model name, or "" for the only one the server has.
        settings: Time-outs, retries, concurrency, key, further request fields.
        locate: Gives the URL anew when the server can't be reached: an embedded server may have been started again.
        prefix: What the variables that say all this begin with, for messages.
    """

    # No dataclass: what serializes those for a tracer would write out the passwords in it.
    def __init__(
        self,
        url: str,
        model: str,
        settings: Settings,
        locate: Callable[[], str] | None = None,
        prefix: str = "HOPGRAPH_LLM",
    ) -> None:
        self.url = url
        self.model = model
        self.settings = settings
        self.locate = locate
        self.prefix = prefix
        self._info: ServerInfo | None = None
        self._lock = asyncio.Lock()
        self._outage = False  # it has been said that calls fail
        self.json_form: JsonForm = "json_schema"  # the strongest that it is not known to refuse
        self._tells = True  # a vLLM server is taken to say how busy it is
        self._ranks = True  # a vLLM server is taken to work by priority until it says that it does not
        if not _is_url(self.url):
            raise InputError(
                f"{self.prefix}_URL: not an http(s) URL: {self.shown!r}", hint="for example http://127.0.0.1:8000/v1"
            )
        if reserved := sorted(_RESERVED & set(self.settings.llm_extra)):
            raise InputError(
                f"HOPGRAPH_LLM_EXTRA: {', '.join(reserved)} can't be set there",
                hint="temperature, max_tokens and seed are settings of a call: --set temperature=0.7",
            )
        self.limiter = Limiter(self.settings.llm_concurrency)
        self._load: asyncio.Task[None] | None = None
        self._load_asked = 0.0
        key = self.settings.llm_api_key
        self._secret = key.get_secret_value() if key else ""
        self._http = Connections(self.url, self._secret, self.settings.llm_timeout)

    def __repr__(self) -> str:
        return f"Endpoint({self.shown!r}, {self.model!r})"

    async def describe(self) -> ServerInfo:
        """Ask the server which models it has and how long their context is (asked once).

        Raises:
            EndpointError: It can't be reached, wants a key, or is no OpenAI-compatible server.
        """
        async with self._lock:
            if self._info is None:
                self._info = await self._ask_server()
                if self._info.kind == "vllm":
                    self.limiter.ask_for_news(self._watch_load)
                if self._info.slots:
                    self.limiter.has_slots(self._info.slots)
        return self._info

    async def _ask_server(self) -> ServerInfo:
        import aiohttp

        patience = min(30.0, self.settings.llm_timeout)

        async def ask() -> Any:
            return (await self._http.get(f"{self.url}/models", patience))["data"]

        try:
            # A server that says so is waited for; where none answers, waiting would only delay the message.
            data: Any = await self._retrying(lambda error: isinstance(error, Refusal))(ask)
            rows = [row for row in data if isinstance(row, dict)]
            models = tuple(str(row["id"]) for row in rows)
        except (Refusal, OSError, aiohttp.ClientError) as error:
            if isinstance(error, Refusal) and error.status in (404, 405, 501):
                await self._check_url()
                if self.model:
                    return ServerInfo("other", (), None)  # chat completions are all that it has
            raise self._explain(error, patience) from None
        except (ValueError, KeyError, TypeError):
            await self._check_url()
            raise EndpointError(
                f"{self.shown}/models did not answer like an OpenAI-compatible server",
                hint=f"check {self.prefix}_URL; it usually ends in /v1",
                permanent=True,
            ) from None
        row = next((row for row in rows if row["id"] == self.model), rows[0] if rows else {})
        # vLLM gives the length of base models only; an adapter has that of its base.
        lengths = [length for one in (row, *rows) if isinstance(length := one.get("max_model_len"), int)]
        if lengths:  # others than vLLM say so in its field, too
            return ServerInfo(await self._kind(row.get("owned_by")), models, lengths[0])
        if row.get("owned_by") == "llamacpp":
            return ServerInfo("llama.cpp", models, *await self._llama_props())
        return ServerInfo("other", models, None)

    async def _check_url(self) -> None:
        """See whether another base URL is the server's.

        Raises:
            EndpointError: One is.
        """
        if right := await meant(self.url, lambda url: self._http.get(url, 10.0)):
            raise EndpointError(
                f"{self.prefix}_URL: {self.shown} is not the base URL of an OpenAI-compatible server",
                hint=f"did you mean {_shown(right)}?",
                permanent=True,
            )

    async def _kind(self, owner: object) -> Literal["vllm", "other"]:
        """Whether a server is vLLM: it says so, or says nothing and has its version page."""
        if owner is None:
            return "vllm" if await self.version() else "other"
        return "vllm" if owner == "vllm" else "other"

    async def _llama_props(self) -> tuple[int | None, int | None]:
        """Context of a slot, in tokens, and number of slots."""
        import aiohttp

        try:
            props = await self._http.get(f"{self._root}/props", 10.0)
            context = int(props["default_generation_settings"]["n_ctx"])
        except (Refusal, OSError, aiohttp.ClientError, ValueError, KeyError, TypeError):
            return None, None
        slots = props.get("total_slots")
        return context, slots if isinstance(slots, int) and slots > 0 else None

    async def version(self) -> str:
        """The version that a vLLM server gives; "" where there is none."""
        import aiohttp

        try:
            return name_of((await self._http.get(f"{self._root}/version", 10.0))["version"])
        except (Refusal, OSError, aiohttp.ClientError, ValueError, KeyError, TypeError):
            return ""

    @property
    def shown(self) -> str:
        """The URL as messages may show it: without a password."""
        return _shown(self.url)

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
                    f"{self.prefix}_MODEL is not set; {self.shown} has {len(models)} models: {', '.join(models[:10])}",
                    hint=f"name one of them in {self.prefix}_MODEL",
                )
            self.model = models[0]
        return self.model

    async def check(self) -> str:
        """The model that will be asked, after everything that can be known beforehand is seen to be right.

        Raises:
            InputError: The server does not have the model, or which one is meant is not clear.
            EndpointError: The server can't be used.
        """
        info = await self.describe()
        # Others may know a model by more names than they list.
        if info.kind == "vllm" and self.model and info.models and self.model not in info.models:
            raise InputError(
                f"{self.shown} has no model {self.model!r}",
                hint=f"{did_you_mean(self.model, info.models)}it has {', '.join(info.models[:10])}; "
                f"{self.prefix}_MODEL or --set model=NAME names one",
            )
        return await self.model_name()

    async def context(self) -> int | None:
        """Tokens that a prompt and its completion have together; None if nobody says."""
        return self.settings.llm_context or (await self.describe()).context

    async def fits(self, messages: Sequence[Message], max_tokens: int) -> bool:
        """Whether a prompt leaves room for `max_tokens` of completion.

        No token is shorter than a byte, so a short prompt is taken to fit unasked. A longer one is counted by the
        server's tokenizer, and where it has none, at a third of a token a byte.
        """
        limit = await self.context()
        max_tokens += 0 if self.json_form == "json_schema" else SCHEMA_ROOM
        size = sum(len(message.content.encode()) + _TEMPLATE_TOKENS for message in messages)
        if limit is None or size + _TEMPLATE_TOKENS + max_tokens <= limit:
            return True
        counted = await self._count(messages) if size < 64 * limit else None
        return (counted if counted is not None else size / 3) + max_tokens <= limit

    async def _count(self, messages: Sequence[Message]) -> int | None:
        """Prompt length in tokens, chat template included, by the tokenizer that vLLM and llama.cpp servers have."""
        import aiohttp

        kind = (await self.describe()).kind
        if kind == "other":
            return None
        is_llama = kind == "llama.cpp"
        place = f"{self.url}/chat/completions/input_tokens" if is_llama else f"{self._root}/tokenize"
        body = {"model": await self.model_name(), "messages": [asdict(message) for message in messages]}
        if switches := self.settings.llm_extra.get("chat_template_kwargs"):
            body["chat_template_kwargs"] = switches
        try:
            answer = await self._http.post(place, body, 30.0)
        except (Refusal, OSError, aiohttp.ClientError, ValueError):
            return None
        count = answer.get("input_tokens" if is_llama else "count") if isinstance(answer, dict) else None
        return count if isinstance(count, int) else None

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
        on_failure: Callable[[Exception], Awaitable[None]] | None = None,
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
            on_failure: Called with the error of each try that fails, whether or not another one follows.

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
            messages, body = in_form(messages, body, self.json_form)
        if top_logprobs is not None:
            body |= {"logprobs": True, **({"top_logprobs": top_logprobs} if top_logprobs else {})}
        model = await self.model_name()
        key = cache_key(model, messages, body) if cache is not None else ""
        if cache is not None and (known := unpack_reply(await cache.get(key))) is not None:
            return known
        if (rank := current_priority()) and "priority" not in body and self.ranks:
            body["priority"] = rank  # no part of the key: the reply does not depend on it
        reply = await self._request(messages, model, request_id, body, on_failure)
        if cache is not None and reply.finish_reason not in _UNFINISHED:
            await cache.put(key, pack_reply(reply))
        return reply

    @property
    def ranks(self) -> bool:
        """Whether the server is vLLM and, as far as is known, begins with the request of the lowest `priority`.

        It does with `--scheduling-policy priority`. Without, it refuses requests that have one, and says so no earlier.
        """
        return self._ranks and self._info is not None and self._info.kind == "vllm"

    async def _request(
        self,
        messages: Sequence[Message],
        model: str,
        request_id: str,
        body: dict[str, Any],
        on_failure: Callable[[Exception], Awaitable[None]] | None,
    ) -> Reply:
        """One request with its retries; while it waits for the next try it takes no place."""
        failed: Exception | None = None
        tried = False

        async def attempt() -> Reply:
            nonlocal failed, tried
            if failed is not None:
                error, failed = failed, None
                raise error
            try:
                async with self.limiter.attempt(first=tried) as place:
                    tried = True
                    try:
                        return await self._once(messages, model, request_id, body)
                    except Exception as error:
                        if _is_overload(error):
                            self.limiter.refused(place, seconds_to_wait(error))
                        raise
            except Exception as error:
                if on_failure is not None:
                    await on_failure(error)
                raise

        try:
            try:
                return await attempt()
            except Exception as error:
                if not may_pass(error):
                    raise
                failed = error
            # What counts tries is costly; nearly all calls do without. The first try is told to it as it went.
            return await self._retrying()(attempt)
        except HopgraphError:
            raise
        except Exception as error:
            if self._refuses_priority(error, body):
                self._ranks = False
                del body["priority"]
                return await self._request(messages, model, request_id, body, on_failure)
            if refuses_form(error, body):
                messages, body = weaker(messages, body)
                reply = await self._request(messages, model, request_id, body, on_failure)
                self._settle_for(form_of(body))
                return reply
            raise self._explain(error) from error

    def _settle_for(self, form: JsonForm) -> None:
        """Ask in this form from now on: the server refuses the stronger one and took this one."""
        stronger = ("json_schema",) if form == "json_object" else ("json_schema", "json_object")
        if self.json_form in stronger:
            self.json_form = form
            how = "JSON objects are asked for" if form == "json_object" else "no JSON mode is used"
            _log.warning("%s refuses JSON schemas: %s, and the schema stands in the prompt", self.shown, how)

    def _refuses_priority(self, error: Exception, body: Mapping[str, Any]) -> bool:
        if "priority" not in body or "priority" in self.settings.llm_extra:
            return False
        return isinstance(error, Refusal) and error.status in (400, 422) and "priority" in str(error.detail).lower()

    def _retrying(self, only: Callable[[BaseException], bool] = lambda _: True) -> AsyncRetrying:
        """Tries with growing pauses, bounded in number and time; `Retry-After` is honoured up to `MAX_BACKOFF`."""
        from tenacity import AsyncRetrying, retry_if_exception, wait_exponential, wait_random

        backoff = wait_exponential(multiplier=FIRST_BACKOFF, max=MAX_BACKOFF) + wait_random(0, FIRST_BACKOFF)

        def wait(state: RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome else None
            return max(backoff(state), min(MAX_BACKOFF, seconds_to_wait(error)))

        return AsyncRetrying(
            stop=out_of_patience(self.settings.llm_retries, self.settings.llm_patience),
            wait=wait,
            retry=retry_if_exception(lambda error: may_pass(error) and only(error)),
            before_sleep=self._before_trying_again,
            reraise=True,
        )

    async def _once(self, messages: Sequence[Message], model: str, request_id: str, body: dict[str, Any]) -> Reply:
        url, headers, seconds = f"{self.url}/chat/completions", {"X-Request-Id": request_id}, self.settings.llm_timeout
        sent = {**body, "model": model, "messages": [asdict(message) for message in messages]}
        async with drain.request():
            started = time.time()
            clock = time.perf_counter()
            if (say := on_text.get()) is None:
                answer = await self._http.post(url, {**sent, "stream": False}, seconds, headers)
            else:
                answer = await post_streamed(self._http, url, sent, seconds, headers, say)
        self._outage = False
        return read_reply(answer, model, started, time.perf_counter() - clock)

    async def _before_trying_again(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, Exception) and not self._outage and state.upcoming_sleep >= _WORTH_SAYING:
            self._outage = True
            _log.warning(
                "%s; trying again for up to %g s (HOPGRAPH_LLM_PATIENCE)",
                self._explain(error).message,
                self.settings.llm_patience,
            )
        if self.locate is None:
            return
        url = await asyncio.to_thread(self.locate)
        self.url = url

    def _explain(self, error: Exception, seconds: float | None = None) -> EndpointError:
        import aiohttp

        if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ConnectionTimeoutError):
            return EndpointError(
                f"{self.shown} did not answer within {seconds or self.settings.llm_timeout:g} s",
                hint="raise HOPGRAPH_LLM_TIMEOUT, or see whether the server is overloaded",
            )
        if isinstance(error, Refusal):
            return self._refused(error.status, self._clean(error.detail))
        if isinstance(error, OSError | aiohttp.ClientConnectionError | aiohttp.ClientPayloadError):
            cause = root_cause(error)
            return EndpointError(
                f"can't reach the model's server at {self.shown}: {type(cause).__name__}: {self._clean(cause)}",
                hint=f"is it running? `hopgraph doctor` tells more; unset {self.prefix}_URL to do without it",
            )
        return EndpointError(
            f"{self.shown} answered with something that is not a chat completion: {self._clean(error)}",
            hint=f"check {self.prefix}_URL; is there a proxy or another program at this address?",
            permanent=True,
        )

    def _clean(self, what: object) -> str:
        """What a server said, in one line; some repeat the key that they refuse."""
        text = " ".join(re.sub(r"<[^<>]*>", " ", str(what)).split())
        text = text.replace(self._secret, "***") if self._secret else text
        return text if len(text) <= _MESSAGE else text[:_MESSAGE] + "..."

    def _refused(self, status: int, detail: str) -> EndpointError:
        said = f": {detail}" if detail else ""
        if status in (400, 413) and _TOO_LONG.search(detail.lower()):
            return PromptTooLong(
                f"the prompt does not fit the model's context{said}", hint="set HOPGRAPH_LLM_CONTEXT", permanent=True
            )
        return EndpointError(
            f"{self.shown} refused the request with status {status}{said}",
            hint=self._advice(status),
            permanent=not passes(status),
        )

    def _advice(self, status: int) -> str:
        """What to do about a refusal."""
        models = self._info.models if self._info else ()
        if status == 404 and self.model and models and self.model not in models:
            near = did_you_mean(self.model, models)
            return f"set {self.prefix}_MODEL; {near}the server has {', '.join(models[:10])}"
        hints = {
            401: f"set {self.prefix}_API_KEY",
            403: f"set {self.prefix}_API_KEY",
            404: f"check {self.prefix}_URL (it usually ends in /v1) and {self.prefix}_MODEL",
            429: "the server is rate-limited: set a lower HOPGRAPH_LLM_CONCURRENCY",
        }
        return hints.get(status, "see the server's log")

    def _watch_load(self) -> None:
        """Ask a server that tells how busy it is, unless it is being asked; called every tenth of a second."""
        adaptive = self.limiter.adaptive
        if adaptive is None or not self._tells:
            return
        now = time.monotonic()
        if (self._load is None or self._load.done()) and now - self._load_asked >= (
            _LOAD_PAUSE if adaptive.settled else 0
        ):
            self._load_asked = now
            self._load = asyncio.create_task(self._ask_load())

    async def _ask_load(self) -> None:
        import aiohttp

        try:
            text = await self._http.text(f"{self._root}/metrics", 10.0)
        except (Refusal, OSError, aiohttp.ClientError):
            self._tells = False
            return
        figures = (
            {
                name: sum(map(float, re.findall(rf"^vllm:num_requests_{name}(?:{{[^}}]*}})? (\S+)$", text, re.M)))
                for name in ("running", "waiting")
            }
            if "vllm:num_requests_running" in text
            else None
        )
        if figures is None:
            self._tells = False
            return
        self.limiter.told(figures["running"], figures["waiting"])

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()


def _is_overload(error: Exception) -> bool:
    """Whether a server had too much to do for a request, and may take it later."""
    return isinstance(error, TimeoutError) or (isinstance(error, Refusal) and error.status in _OVERLOADED)


_endpoints: dict[asyncio.AbstractEventLoop, dict[tuple[str, str, str], Endpoint]] = {}
_limiters: WeakValueDictionary[tuple[str, int | str], Limiter] = WeakValueDictionary()
"""One for each server: `graph.invoke` and a program's own `ainvoke` run in loops of their own and share the limit."""
# A forked process begins anew: its parent's calls are not in flight here.
os.register_at_fork(after_in_child=_limiters.clear)


def get_endpoint(model: str | None = None, role: Role = "llm", *, embedded: str | None = None) -> Endpoint:
    """The endpoint of a role's server: one object an event loop and model.

    All models of a server share its concurrency limit, in all event loops of this process. Call it with a running loop.
    Without a URL in HOPGRAPH_LLM_URL or in the role's own variable the embedded model's server is used; unless its URL
    is given, it is located or started here, which blocks the loop: nodes use `nodes.model.open_endpoint`.

    Args:
        model: Model name; None for the one that the settings name.
        role: What it is asked for.
        embedded: URL of the embedded model's server, if it was located already.
    """
    settings = get_settings()
    url, named, key, own = settings.server(role)
    if url is not None:
        model = model or named
    prefix = f"HOPGRAPH_{role if own else 'llm'}".upper()
    place = ("" if url is None else url.rstrip("/"), model or "", prefix)
    for loop in [loop for loop in _endpoints if loop.is_closed()]:
        del _endpoints[loop]
    known = _endpoints.setdefault(asyncio.get_running_loop(), {})
    if place not in known:
        locate = _embedded_url if url is None else None
        if own:  # another server's context and key are its own
            settings = settings.model_copy(update={"llm_api_key": key, "llm_context": None})
        endpoint = Endpoint(place[0] or embedded or _embedded_url(), place[1], settings, locate, prefix)
        endpoint.limiter = _limiters.setdefault((place[0], settings.llm_concurrency), endpoint.limiter)
        known[place] = endpoint
    return known[place]


def limiters() -> list[Limiter]:
    """The limiters of this event loop's endpoints."""
    known = _endpoints.get(asyncio.get_running_loop(), {})
    return list({id(endpoint.limiter): endpoint.limiter for endpoint in known.values()}.values())


def calls_at_once() -> int:
    """Model calls that may be in flight at present, at the endpoint that takes the most."""
    concurrency = get_settings().llm_concurrency
    if concurrency == "auto":
        return max((limiter.limit for limiter in limiters()), default=OPENING)
    return concurrency


def _embedded_url() -> str:
    from inference.embedded import ensure_server

    return ensure_server(get_settings().embedded_model).url


def _shown(url: str) -> str:
    return re.sub(r"[^/@]*@", "***@", url)


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
