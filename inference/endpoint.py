"""Completions of one OpenAI-compatible chat endpoint (vLLM first): requests, their form, retries and cache."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from inference import drain
from inference.chat import Message, Reply, Schema, read_reply
from inference.errors import HopgraphError, InputError
from inference.failures import is_overload
from inference.http import Refusal, is_transient, retry_after_seconds
from inference.json_forms import SCHEMA_ROOM, JsonForm, form_of, in_form, refuses_form, weaker
from inference.limiter import current_priority
from inference.reply_cache import ResponseCache, cache_key, pack_reply, unpack_reply, worth_caching
from inference.server import Server
from inference.settings import Settings
from inference.sse import on_text, post_streamed

_log = logging.getLogger(__name__)
_RESERVED = frozenset(
    {"model", "messages", "temperature", "max_tokens", "seed", "response_format", "logprobs", "top_logprobs"}
    | {"stream", "n"}
)
"""Request fields that HOPGRAPH_LLM_EXTRA can't set: the caller does, or the reply could not be read."""


class LeftOutError(ConnectionError):
    """The server of a list was found unreachable while a call waited for it."""


class Endpoint(Server):
    """A chat model behind an OpenAI-compatible server; arguments as for `Server`.

    Raises:
        InputError: The URL is no http(s) URL, or HOPGRAPH_LLM_EXTRA sets a reserved field.
    """

    def __init__(
        self,
        url: str,
        model: str,
        settings: Settings,
        locate: Callable[[], str] | None = None,
        prefix: str = "HOPGRAPH_LLM",
    ) -> None:
        super().__init__(url, model, settings, locate, prefix)
        self.json_form: JsonForm = "json_schema"  # strongest form not yet refused
        self.left_out = False  # whether other servers of its list answer for it
        self._ranks = True  # vLLM is assumed to schedule by priority until it refuses
        if reserved := sorted(_RESERVED & set(self.settings.llm_extra)):
            raise InputError(
                f"HOPGRAPH_LLM_EXTRA: {', '.join(reserved)} can't be set there",
                hint="temperature, max_tokens and seed are settings of a call: --set temperature=0.7",
            )

    async def fits(self, messages: Sequence[Message], max_tokens: int) -> bool:
        """Whether a prompt leaves room for `max_tokens` of completion; see `inference.prompt_size.fits`."""
        return await self.has_room(messages, max_tokens + (0 if self.json_form == "json_schema" else SCHEMA_ROOM))

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
            request_id: Sent as the `X-Request-Id` header.
            schema: The reply must be JSON of this schema.
            temperature: 0 is greedy.
            max_tokens: Longest completion.
            seed: For servers that sample reproducibly.
            top_logprobs: Return log-probabilities of the tokens, with this many alternatives (0: none of them).
            cache: Look here first, and store the reply here.
            on_failure: Called with the error of each failed attempt, retried or not.

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
            body["priority"] = rank  # not part of the cache key: the reply does not depend on it
        reply = await self._request(messages, model, request_id, body, on_failure)
        if cache is not None and worth_caching(reply):
            await cache.put(key, pack_reply(reply))
        return reply

    @property
    def ranks(self) -> bool:
        """Whether the server is vLLM and, as far as known, schedules by `priority`, lowest first.

        Requires `--scheduling-policy priority`; without it, vLLM refuses requests with a priority.
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
        """One request with its retries; it holds no slot of the limiter during a backoff."""
        failed: Exception | None = None
        tried = False

        async def attempt() -> Reply:
            nonlocal failed, tried
            if failed is not None:
                error, failed = failed, None
                raise error
            first, tried = tried, True
            try:
                return await self._attempt(messages, model, request_id, body, first, on_failure)
            except Exception as error:
                if on_failure is not None:
                    await on_failure(error)
                raise

        try:
            try:
                return await attempt()
            except Exception as error:
                if not is_transient(error):
                    raise
                failed = error
            # tenacity's object is costly and few calls need it: it is made after the first failure and raises it first.
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

    async def _attempt(
        self,
        messages: Sequence[Message],
        model: str,
        request_id: str,
        body: dict[str, Any],
        first: bool,
        on_failure: Callable[[Exception], Awaitable[None]] | None,
    ) -> Reply:
        """One attempt, within the limit of calls in flight. A list of servers makes several, and reports failures."""
        async with self.limiter.attempt(first=first) as place:
            if self.left_out:
                raise LeftOutError(f"{self.shown} is left out")
            try:
                return await self._once(messages, model, request_id, body)
            except Exception as error:
                if is_overload(error):
                    self.limiter.refused(place, retry_after_seconds(error))
                raise

    def _settle_for(self, form: JsonForm) -> None:
        """Use this form from now on: the server refused the stronger one and accepted this one."""
        stronger = ("json_schema",) if form == "json_object" else ("json_schema", "json_object")
        if self.json_form in stronger:
            self.json_form = form
            how = "JSON objects are asked for" if form == "json_object" else "no JSON mode is used"
            _log.warning("%s refuses JSON schemas: %s, and the schema stands in the prompt", self.shown, how)

    def _refuses_priority(self, error: Exception, body: Mapping[str, Any]) -> bool:
        if "priority" not in body or "priority" in self.settings.llm_extra:
            return False
        return isinstance(error, Refusal) and error.status in (400, 422) and "priority" in str(error.detail).lower()

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
