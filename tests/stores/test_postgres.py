"""A real Postgres that refuses, that is away for a while, and that stays away."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from inference.errors import StoreError, StoreUnavailable
from stores.checkpoint_errors import without_password
from stores.checkpoints import kept_threads, open_checkpoints
from tests.postgres import Postgres, postgres_server

pytest.importorskip("psycopg")
pytest.importorskip("langgraph.checkpoint.postgres")


@pytest.fixture(scope="module")
def installed() -> Iterator[Postgres]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def server(installed: Postgres) -> Iterator[Postgres]:
    """A server that runs, and is started again after a test that has stopped it."""
    yield installed
    installed.stop()
    installed.start()


def config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


async def put(saver: Any, thread: str) -> None:
    saved = await saver.aput(config(thread), empty_checkpoint(), {"source": "input", "step": -1}, {})
    await saver.aput_writes(saved, [("found", thread)], "task")


async def kept(saver: Any, thread: str) -> list[Any]:
    latest = await saver.aget_tuple(config(thread))
    return [value for _, _, value in latest.pending_writes] if latest else []


def later(seconds: float, call: Any) -> threading.Thread:
    def run() -> None:
        time.sleep(seconds)
        call()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("s3cret", "wrong-one"), "password authentication failed"),
        (("/postgres", "/nothing"), 'database "nothing" does not exist'),
        (("tester:s3cret@", ""), "no password supplied"),
    ],
)
async def test_a_server_that_refuses_is_not_waited_for(server: Postgres, change: tuple[str, str], said: str) -> None:
    with pytest.raises(StoreError) as caught:
        async with asyncio.timeout(30), open_checkpoints(server.url.replace(*change), patience=600):
            pass
    assert said in caught.value.message
    assert "wrong-one" not in caught.value.message
    assert not isinstance(caught.value, StoreUnavailable)
    assert caught.value.exit_code == 2


@pytest.mark.slow
async def test_an_outage_is_waited_out_and_said_once(server: Postgres, caplog: pytest.LogCaptureFixture) -> None:
    threads = [f"t-{number}" for number in range(20)]
    async with open_checkpoints(server.url, patience=60) as saver:
        await put(saver, "before")
        server.stop()
        starting = later(3.5, server.start)  # the pool itself waits for two seconds
        listed, (_, count), *_ = await asyncio.gather(
            _listed(saver), kept_threads(saver, 1), *(put(saver, thread) for thread in threads)
        )
        assert listed == ["before"]
        assert count
        assert [await kept(saver, thread) for thread in ("before", *threads)] == [[t] for t in ("before", *threads)]
        starting.join()
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    place = without_password(server.url)
    assert len(said) == 2
    assert said[0].startswith(f"checkpoints in {place}: ")
    assert said[0].endswith("waiting for it, 60 s at most")
    assert said[1] == f"checkpoints in {place}: reachable again"
    assert not any("s3cret" in line for line in said)


async def _listed(saver: Any) -> list[str]:
    return [row.config["configurable"]["thread_id"] async for row in saver.alist(config("before"))]


async def test_a_server_that_is_away_when_the_store_is_opened_is_waited_for(server: Postgres) -> None:
    server.stop()
    starting = later(1, server.start)
    async with open_checkpoints(server.url, patience=60) as saver:
        await put(saver, "t")
        assert await kept(saver, "t") == ["t"]
    starting.join()


@pytest.mark.slow
async def test_after_the_patience_all_calls_fail_at_once_and_work_again_when_the_server_is_back(
    server: Postgres,
) -> None:
    async with open_checkpoints(server.url, patience=1) as saver:
        await put(saver, "kept")
        server.stop()
        found = await asyncio.gather(*(put(saver, f"t-{n}") for n in range(30)), return_exceptions=True)
        assert {type(error) for error in found} == {StoreUnavailable}
        error = found[0]
        assert isinstance(error, StoreUnavailable)
        assert (error.kind, error.exit_code) == ("store_unavailable", 3)
        assert "(waited 1 s)" in error.message
        assert "s3cret" not in error.message
        server.start()
        await put(saver, "after")
        assert await kept(saver, "kept") == ["kept"]
        assert await kept(saver, "after") == ["after"]
    server.stop()
    with pytest.raises(StoreUnavailable):
        async with open_checkpoints(server.url, patience=0):
            pass


@pytest.mark.slow
async def test_the_password_may_be_changed_during_an_outage(server: Postgres) -> None:
    import psycopg

    async with open_checkpoints(server.url, patience=600) as saver:
        async with await psycopg.AsyncConnection.connect(server.url, autocommit=True) as connection:
            await connection.execute("ALTER USER tester PASSWORD 'another'")
        server.stop()
        try:
            starting = later(0.5, server.start)
            with pytest.raises(StoreError, match="password authentication failed") as caught:
                await asyncio.wait_for(put(saver, "t"), 60)
            assert caught.value.exit_code == 2
        finally:
            changed = server.url.replace("s3cret", "another")
            async with await psycopg.AsyncConnection.connect(changed, autocommit=True) as connection:
                await connection.execute("ALTER USER tester PASSWORD 's3cret'")
            starting.join()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:hunter2@h:5432/d?sslmode=require", "postgresql://h:5432/d"),
        ("postgresql://me:hunter2@a:1,b:2/d?target_session_attrs=read-write", "postgresql://a:1,b:2/d"),
        ("postgresql://me:hunter2@a,b/d", "postgresql://a,b/d"),
        ("postgresql://me:hun/ter2@h/d", "a malformed URL"),
        ("checkpoints.sqlite", "checkpoints.sqlite"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown
