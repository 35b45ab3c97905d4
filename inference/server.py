"""Client of an OpenAI-compatible server: models, checks, retries and errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from inference.base_url import is_url, server_root, shown, suggested_url
from inference.chat import Message
from inference.errors import EndpointError, InputError, did_you_mean
from inference.failures import Target, explain
from inference.http import Connections, Refusal, is_transient
from inference.limiter import Limiter
from inference.prompt_size import count_tokens, fits
from inference.retries import retry_policy
from inference.server_info import ServerInfo, model_rows, server_info, server_version
from inference.server_load import LoadWatch
from inference.settings import Settings

if TYPE_CHECKING:
    from tenacity import AsyncRetrying, RetryCallState

_log = logging.getLogger(__name__)
_WORTH_SAYING = 1.0
"""Minimum seconds of a backoff that is reported to the user."""


class Server:
    """A server and the model used on it.

    Args:
        url: Base URL that ends in /v1.
        model: Model name, or "" for the only one the server has.
        settings: Time-outs, retries, concurrency, key.
        locate: Returns the current URL when the server is unreachable: an embedded server may have been restarted.
        prefix: Prefix of the variables that configure it, for messages.

    Raises:
        InputError: The URL is not an http(s) URL.
    """

    # Not a dataclass: tracers serialize dataclasses, and it holds passwords.
    def __init__(self, url: str, model: str, settings: Settings, locate: Callable[[], str] | None, prefix: str) -> None:
        self.url = url
        self.model = model
        self.settings = settings
        self.locate = locate
        self.prefix = prefix
        if not is_url(self.url):
            raise InputError(
                f"{self.prefix}_URL: not an http(s) URL: {self.shown!r}", hint="for example http://127.0.0.1:8000/v1"
            )
        self.limiter = Limiter(self.settings.llm_concurrency)
        self._info: ServerInfo | None = None
        self._lock = asyncio.Lock()
        self._outage = False  # whether an outage has been reported
        key = self.settings.llm_api_key
        self._secret = key.get_secret_value() if key else ""
        self._http = Connections(self.url, self._secret, self.settings.llm_timeout)

    @property
    def limiters(self) -> list[Limiter]:
        """The limiter of each server in use."""
        return [self.limiter]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shown!r}, {self.model!r})"

    async def describe(self) -> ServerInfo:
        """Models of the server and their context length, requested once.

        Raises:
            EndpointError: It is unreachable, requires a key, or is not OpenAI-compatible.
        """
        async with self._lock:
            if self._info is None:
                self._info = await self._ask_server()
                if self._info.kind == "vllm":
                    self.limiter.on_tick(LoadWatch(self.limiter, self._metrics))
                if self._info.slots:
                    self.limiter.set_slots(self._info.slots)
        return self._info

    async def _ask_server(self) -> ServerInfo:
        import aiohttp

        seconds = min(30.0, self.settings.llm_timeout)
        try:
            # Retry only if the server asks for it; without a server, retries would only delay the message.
            rows: list[dict[str, Any]] = await self._retrying(lambda error: isinstance(error, Refusal))(
                self._model_rows, seconds
            )
        except (Refusal, OSError, aiohttp.ClientError) as error:
            if isinstance(error, Refusal) and error.status in (404, 405, 501):
                await self._check_url()
                if self.model:
                    return ServerInfo("other", (), None)  # it only has chat completions
            raise self._explain(error, seconds) from None
        except (ValueError, KeyError, TypeError):
            await self._check_url()
            raise EndpointError(
                f"{self.shown}/models did not answer like an OpenAI-compatible server",
                hint=f"check {self.prefix}_URL; it usually ends in /v1",
                permanent=True,
            ) from None
        return await server_info(self._http, self.url, self.model, rows)

    async def _model_rows(self, seconds: float) -> list[dict[str, Any]]:
        return await model_rows(self._http, self.url, seconds)

    async def _check_url(self) -> None:
        """Check for a wrong base URL.

        Raises:
            EndpointError: Another base URL is the server's.
        """
        if right := await suggested_url(self.url, lambda url: self._http.get(url, 10.0)):
            raise EndpointError(
                f"{self.prefix}_URL: {self.shown} is not the base URL of an OpenAI-compatible server",
                hint=f"did you mean {shown(right)}?",
                permanent=True,
            )

    async def version(self) -> str:
        """The version of a vLLM server; "" for others."""
        return await server_version(self._http, self.url)

    @property
    def shown(self) -> str:
        """The URL for messages, with the password redacted."""
        return shown(self.url)

    async def model_name(self) -> str:
        """The configured model, else the only one the server has.

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
        """Validate URL, key and model; returns the model's name.

        Raises:
            InputError: The server does not have the model, or has several and none is named.
            EndpointError: The server is unusable.
        """
        info = await self.describe()
        # Other servers may accept aliases that they do not list.
        if info.kind == "vllm" and self.model and info.models and self.model not in info.models:
            raise InputError(
                f"{self.shown} has no model {self.model!r}",
                hint=f"{did_you_mean(self.model, info.models)}it has {', '.join(info.models[:10])}; "
                f"{self.prefix}_MODEL or --set model=NAME names one",
            )
        return await self.model_name()

    async def context(self) -> int | None:
        """Context in tokens, prompt and completion together; None if unknown."""
        return self.settings.llm_context or (await self.describe()).context

    async def has_room(self, messages: Sequence[Message], max_tokens: int) -> bool:
        """Whether a prompt leaves room for `max_tokens` more; see `inference.prompt_size.fits`."""
        return await fits(messages, max_tokens, await self.context(), lambda: self._count(messages))

    async def _count(self, messages: Sequence[Message]) -> int | None:
        info, model = await self.describe(), await self.model_name()
        switches = self.settings.llm_extra.get("chat_template_kwargs")
        return await count_tokens(self._http, self.url, info, model, messages, switches)

    def _retrying(self, only: Callable[[BaseException], bool] = lambda _: True) -> AsyncRetrying:
        from tenacity import AsyncRetrying

        policy = retry_policy(
            self.settings.llm_retries, self.settings.llm_patience, lambda error: is_transient(error) and only(error)
        )
        return AsyncRetrying(**policy, before_sleep=self._before_retry)

    async def _before_retry(self, state: RetryCallState) -> None:
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
        target = Target(self.shown, self.prefix, self.model, self._info.models if self._info else ())
        return explain(error, target, seconds or self.settings.llm_timeout, self._secret)

    async def _metrics(self) -> str:
        return await self._http.text(f"{server_root(self.url)}/metrics", 10.0)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()
