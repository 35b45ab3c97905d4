"""Several servers of one model, behind one endpoint: least-loaded routing with prefix affinity, and failover."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Container, Sequence
from contextlib import suppress
from typing import Any

from inference.chat import Message, Reply
from inference.endpoint import Endpoint, LeftOutError
from inference.errors import EndpointError, InputError
from inference.failures import is_unreachable
from inference.http import is_transient
from inference.limiter import Limiter
from inference.server_info import ServerInfo
from inference.settings import Settings

_log = logging.getLogger(__name__)
RECHECK = 2.0
"""Seconds between two checks whether a server that was left out is back; it is checked while there are calls."""
_CHECK_TIMEOUT = 5.0
_MOST_THREADS = 65_536
"""Threads whose server is remembered."""


class EndpointList(Endpoint):
    """Servers of the same model.

    A thread's calls stay with the server that had the least load when its first call was made: its prompts share
    prefixes, which that server has cached. A server that can't be reached is left out, and its calls go to the others
    at once; it is checked from time to time, and comes back. Retries, with their pauses, begin when no server accepts a
    call.

    Args:
        servers: One endpoint each.
        model: Model name, or "" for the only one that the servers have.
        settings: As for the servers.
        prefix: Prefix of the variables that configure them.
    """

    def __init__(self, servers: Sequence[Endpoint], model: str, settings: Settings, prefix: str) -> None:
        super().__init__(servers[0].url, model, settings, None, prefix)
        self.url = ",".join(server.url for server in servers)
        self.servers = list(servers)
        self._threads: OrderedDict[str, Endpoint] = OrderedDict()
        self._assigned: Counter[Endpoint] = Counter()
        self._checked = dict.fromkeys(self.servers, 0.0)
        self._checks: set[asyncio.Task[None]] = set()

    @property
    def limiters(self) -> list[Limiter]:
        """The limiter of each server in use."""
        return [server.limiter for server in self._in_use()]

    @property
    def shown(self) -> str:
        """The URLs for messages, with passwords redacted."""
        return ", ".join(server.shown for server in self.servers)

    async def describe(self) -> ServerInfo:
        """What the servers have in common: models and the shortest context. Unreachable servers are left out.

        Raises:
            EndpointError: None can be used, or one is wrongly configured.
            InputError: They have no model in common.
        """
        async with self._lock:
            if self._info is None:
                self._info = self._common(await self._describe_each())
        return self._info

    async def _describe_each(self) -> dict[Endpoint, ServerInfo]:
        found = await asyncio.gather(*(server.describe() for server in self.servers), return_exceptions=True)
        infos: dict[Endpoint, ServerInfo] = {}
        failed: dict[Endpoint, EndpointError] = {}
        for server, result in zip(self.servers, found, strict=True):
            if isinstance(result, ServerInfo):
                infos[server] = result
            elif isinstance(result, EndpointError) and not result.permanent:
                failed[server] = result
            else:
                raise result
        if not infos:
            raise next(iter(failed.values()))
        for server, error in failed.items():
            self._leave_out(server, error.message)
        return infos

    def _common(self, infos: dict[Endpoint, ServerInfo]) -> ServerInfo:
        kinds = {info.kind for info in infos.values()}
        listed = [info.models for info in infos.values() if info.models]
        models = tuple(name for name in (listed[0] if listed else ()) if all(name in other for other in listed))
        if listed and not models:
            each = "; ".join(f"{server.shown}: {', '.join(info.models[:5])}" for server, info in infos.items())
            raise InputError(
                f"{self.prefix}_URL: the servers have no model in common: {each}",
                hint="a list has servers of one model",
            )
        contexts = [info.context for info in infos.values() if info.context is not None]
        return ServerInfo(kinds.pop() if len(kinds) == 1 else "other", models, min(contexts, default=None))

    async def check(self) -> str:
        """Validate URLs, key and model of every server that can be reached; returns the model's name.

        Raises:
            InputError: A server lacks the model, or they have several in common and none is named.
            EndpointError: No server can be used.
        """
        await self.describe()
        model = await self.model_name()
        for server in self._in_use():
            server.model = model
            await server.check()
        return model

    async def version(self) -> str:
        """The version of the first server, if that is vLLM; "" for others."""
        return await self._in_use()[0].version()

    async def close(self) -> None:
        """Close the connections."""
        for task in self._checks:
            task.cancel()
        for server in self.servers:
            await server.close()

    async def _count(self, messages: Sequence[Message]) -> int | None:
        await self.model_name()
        for server in sorted(self._in_use(), key=lambda server: server.limiter.load):
            server.model = self.model
            with suppress(EndpointError):
                if (count := await server._count(messages)) is not None:
                    return count
        return None

    async def _attempt(
        self,
        messages: Sequence[Message],
        model: str,
        request_id: str,
        body: dict[str, Any],
        first: bool,
        on_failure: Callable[[Exception], Awaitable[None]] | None,
    ) -> Reply:
        """One attempt at each server in turn until one answers."""
        thread = request_id.partition(".")[0]
        failed: dict[Endpoint, Exception] = {}
        while True:
            self._check_left_out()
            server = self._choose(thread, failed)
            try:
                reply = await server._attempt(messages, model, request_id, body, first, on_failure)
            except Exception as error:
                failed[server] = error
                if not is_transient(error):
                    raise
                if is_unreachable(error):
                    self._leave_out(server, server._explain(error).message)
                if all(other in failed for other in self._in_use()):
                    raise next((e for e in failed.values() if not isinstance(e, LeftOutError)), error) from None
                if on_failure is not None:
                    await on_failure(error)
                first = True
            else:
                self._outage = False
                return reply

    def _in_use(self) -> list[Endpoint]:
        """The servers that are not left out; if all are, all."""
        return [server for server in self.servers if not server.left_out] or self.servers

    def _choose(self, thread: str, failed: Container[Endpoint]) -> Endpoint:
        """The thread's server, or the one with the least load, which becomes the thread's."""
        open_servers = [server for server in self._in_use() if server not in failed] or self._in_use()
        known = self._threads.get(thread)
        if known is None or known not in open_servers:
            known = min(open_servers, key=lambda server: (server.limiter.load, self._assigned[server]))
            self._assigned[known] += 1
        self._threads[thread] = known
        self._threads.move_to_end(thread)
        if len(self._threads) > _MOST_THREADS:
            self._threads.popitem(last=False)
        known.left_out = False  # if all are left out, each call tries them all
        return known

    def _leave_out(self, server: Endpoint, why: str) -> None:
        if server.left_out:
            return
        server.left_out = True
        self._checked[server] = time.monotonic()
        left = sum(not other.left_out for other in self.servers)
        if left:
            _log.warning("%s; left out, %d of %d servers remain", why, left, len(self.servers))

    def _check_left_out(self) -> None:
        """Check in the background whether servers are back."""
        now = time.monotonic()
        for server in self.servers:
            if server.left_out and now - self._checked[server] >= RECHECK:
                self._checked[server] = now
                task = asyncio.create_task(self._check_again(server))
                self._checks.add(task)
                task.add_done_callback(self._checks.discard)

    async def _check_again(self, server: Endpoint) -> None:
        try:
            await server._model_rows(_CHECK_TIMEOUT)
            server._info = None  # it may have been started anew with another model or context
            await server.describe()
            self._info = self._common({one: one._info for one in self.servers if one._info is not None})
        except Exception:  # whatever it is, the server stays left out
            return
        if server.left_out:
            server.left_out = False
            _log.warning("%s is back", server.shown)
