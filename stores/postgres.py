"""Checkpoints in Postgres. A server that is away for a while (restart, failover) is waited for."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import psycopg
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from inference.errors import InputError, StoreError, StoreUnavailable
from stores.checkpoint_errors import one_line, without_password
from stores.serializer import PackingSerializer

Found = TypeVar("Found")
_log = logging.getLogger(__name__)
logging.getLogger("psycopg.pool").setLevel(logging.ERROR)  # its warnings, several a second, say what ours does

_SETUP = 30.0
"""Seconds to wait for another process that creates the tables."""
_CONNECTIONS = 2
"""One in use, since LangGraph's saver makes one call at a time, and one more while a broken one is replaced."""
_CONNECT = 10
"""Seconds that a connection may take to be made."""
_FREE = 2.0
"""Seconds to wait for a connection of the pool."""
_RECONNECT = 5.0
"""Seconds after which the pool gives up a connection; a later call makes a new attempt."""
_PAUSES = (0.2, 2.0)
"""First and longest pause in seconds between two attempts to reach the server."""
_DEFAULTS = {"connect_timeout": _CONNECT, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3,
             "tcp_user_timeout": 30_000}  # fmt: skip
"""Connection parameters that the URL may override: a host that is gone is noticed after half a minute."""
_AWAY = ("08", "53", "57P01", "57P02", "57P03", "25006", "40")
"""SQLSTATEs, or their classes, of errors that pass: connection lost, resources exhausted, server starting or stopping,
read-only during a failover, serialization failure."""
_REFUSED = (
    "authentication failed",
    "does not exist",
    "no password supplied",
    "no pg_hba.conf entry",
    "permission denied",
    "not permitted to log in",
    "does not support SSL",
    "certificate",
    "no such database",
    "no such user",
)
"""Texts of connection errors that don't pass by waiting. libpq gives no SQLSTATE for these."""


@asynccontextmanager
async def open_postgres(url: str, patience: float) -> AsyncIterator[PatientSaver]:
    """Open a checkpointer for the duration of the context; the tables are created if missing.

    Args:
        url: A postgresql:// URL.
        patience: Seconds to wait for a server that is away.

    Raises:
        InputError: The URL is malformed.
        StoreError: The server refuses: wrong password, unknown database, missing rights.
        StoreUnavailable: It is away for longer.
    """
    try:
        missing = {key: value for key, value in _DEFAULTS.items() if key not in conninfo_to_dict(url)}
    except psycopg.ProgrammingError:  # its message may hold the password
        raise InputError(
            "HOPGRAPH_CHECKPOINTS: malformed postgresql:// URL",
            hint="percent-encode special characters in the password",
        ) from None
    # The last three are required by the saver, which reads rows by name.
    options: dict[str, Any] = {**missing, "autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    server = _Server(url, patience, options)
    try:
        await server.patiently(server.set_up)
    except psycopg.Error as error:
        raise StoreError(
            f"checkpoints in {server.place}: {one_line(error)}", hint="are user, password and database right?"
        ) from None
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
        url,
        min_size=1,
        max_size=_CONNECTIONS,
        kwargs=options,
        open=False,
        check=AsyncConnectionPool.check_connection,
        timeout=_FREE,
        reconnect_timeout=_RECONNECT,
    )
    try:
        await pool.open()
        yield PatientSaver(pool, server)
    finally:
        await pool.close()


class _Server:
    """A Postgres, which may be away for a while.

    All calls that fail meanwhile share one outage: one of them tries to connect, and its end is theirs.
    """

    def __init__(self, url: str, patience: float, options: dict[str, Any]) -> None:
        self.place = without_password(url)
        self._url = url
        self._patience = patience
        self._options = options
        self._turn = asyncio.Lock()
        self._probing = asyncio.Lock()
        self._probed = -float("inf")
        self._problem: str | None = None
        """Result of the last attempt to connect; None: the server is there."""
        self._since: float | None = None
        """When the outage began."""

    async def set_up(self) -> None:
        """Create the tables if they are missing."""
        async with await self._connect() as connection:
            await _lock_setup(connection)  # until the connection closes
            await AsyncPostgresSaver(connection).setup()

    async def _connect(self) -> psycopg.AsyncConnection[Any]:
        return await psycopg.AsyncConnection.connect(self._url, **self._options)

    async def patiently(self, call: Callable[[], Awaitable[Found]]) -> Found:
        """The call's result; it is repeated while the server is away, so it must be idempotent.

        Raises:
            StoreUnavailable: The patience is over.
        """
        began: float | None = None
        while True:
            if self._problem is not None:
                await self._until_reachable(time.monotonic())
            try:
                async with self._turn:
                    if self._problem is None:  # or else it was found out meanwhile
                        return await call()
            except (psycopg.OperationalError, psycopg.InternalError, PoolTimeout) as error:
                if not _is_away(error):
                    raise
                now = time.monotonic()
                began = began or now
                await self._until_reachable(now)
                if time.monotonic() - began > self._patience:  # it can be reached, and still the call fails
                    raise self._unavailable(one_line(error)) from None
                await asyncio.sleep(_PAUSES[0])

    async def _until_reachable(self, failed: float) -> None:
        """Wait until the server accepts a connection again.

        Args:
            failed: When the call failed.
        """
        async with self._probing:
            pause, longest = _PAUSES
            while True:
                if self._probed < failed or (self._problem is not None and self._remaining() > 0):
                    await self._probe()
                if self._problem is None:
                    return
                if (remaining := self._remaining()) <= 0:
                    raise self._unavailable(self._problem)
                await asyncio.sleep(min(pause, remaining))
                pause = min(2 * pause, longest)

    async def _probe(self) -> None:
        quiet = time.monotonic() - self._probed
        try:
            async with await self._connect():
                self._problem = None
        except psycopg.OperationalError as error:
            if not _is_away(error):
                raise
            self._problem = one_line(error)
        self._probed = time.monotonic()
        if self._problem is None:
            if self._since is not None:
                _log.warning("checkpoints in %s: reachable again", self.place)
            self._since = None
        elif self._since is None or quiet > self._patience:
            self._since = self._probed
            _log.warning(
                "checkpoints in %s: %s; waiting for it, %.0f s at most", self.place, self._problem, self._patience
            )

    def _remaining(self) -> float:
        return self._patience if self._since is None else self._since + self._patience - time.monotonic()

    def _unavailable(self, reason: str) -> StoreUnavailable:
        return StoreUnavailable(
            f"checkpoints in {self.place}: {reason} (waited {self._patience:.0f} s)",
            hint="nothing is lost: repeat the command or the request when the server is back",
        )


class PatientSaver(AsyncPostgresSaver):
    """LangGraph's checkpointer for Postgres, which waits while the server is away.

    Its writes are upserts and deletions, so that one whose outcome is unknown can be repeated.
    """

    def __init__(self, pool: AsyncConnectionPool[Any], server: _Server) -> None:
        super().__init__(pool, serde=PackingSerializer())
        self._server = server

    async def fetch(self, query: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Rows of a query, by column."""

        async def fetched() -> list[dict[str, Any]]:
            async with self._cursor() as cursor:
                await cursor.execute(query, values)
                return await cursor.fetchall()

        return await self._server.patiently(fetched)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `BaseCheckpointSaver`."""
        return await self._server.patiently(lambda: super(PatientSaver, self).aget_tuple(config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """See `BaseCheckpointSaver`. It waits for the first checkpoint only: a list can't go on in the middle."""

        async def begun() -> tuple[AsyncIterator[CheckpointTuple], CheckpointTuple | None]:
            rows = super(PatientSaver, self).alist(config, filter=filter, before=before, limit=limit)
            return rows, await anext(rows, None)

        rows, first = await self._server.patiently(begun)
        if first is not None:
            yield first
            async for row in rows:
                yield row

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See `BaseCheckpointSaver`."""
        put = super().aput
        return await self._server.patiently(lambda: put(config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """See `BaseCheckpointSaver`."""
        put = super().aput_writes
        await self._server.patiently(lambda: put(config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """See `BaseCheckpointSaver`."""
        delete = super().adelete_thread
        await self._server.patiently(lambda: delete(thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """See `BaseCheckpointSaver`."""
        prune = super().aprune
        await self._server.patiently(lambda: prune(thread_ids, strategy=strategy))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See `BaseCheckpointSaver`."""
        history = super().aget_delta_channel_history
        return await self._server.patiently(lambda: history(config=config, channels=channels))


def _is_away(error: Exception) -> bool:
    """Whether an error may pass by waiting."""
    if isinstance(error, PoolTimeout):
        return True
    state = getattr(error, "sqlstate", None)
    if state is None:  # of a connection that failed or broke
        text = str(error)
        return isinstance(error, psycopg.OperationalError) and not any(sign in text for sign in _REFUSED)
    return str(state).startswith(_AWAY)


async def _lock_setup(connection: psycopg.AsyncConnection[Any]) -> None:
    """Wait until no other process sets up the same database: two at once create the same tables, and one fails.

    It polls, since a statement that waits for a lock would keep CREATE INDEX CONCURRENTLY from ending.
    """
    deadline = time.monotonic() + _SETUP
    while time.monotonic() < deadline:
        cursor = await connection.execute("SELECT pg_try_advisory_lock(hashtext('hopgraph checkpoints')) AS locked")
        if (await cursor.fetchone())["locked"]:  # type: ignore[index]
            return
        await asyncio.sleep(0.05)
