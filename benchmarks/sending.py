"""Records Hopgraph's requests and replays them with a bare client, to measure the endpoint's own limit."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from inference import endpoint as client
from inference.limiter import Limiter, priority


@dataclass
class Sent:
    """A recorded request."""

    id: str
    asked: float
    """When the method issued it; it may then have been queued."""
    ended: float = 0.0
    body: bytes = b""

    def before(self, others: Sequence[Sent]) -> list[Sent]:
        """Requests of the same question that had been answered when it was issued."""
        return [other for other in others if other.ended <= self.asked]


@contextmanager
def recording() -> Iterator[list[Sent]]:
    """Record the requests of Hopgraph's client within the context."""
    sent: list[Sent] = []
    complete, once = client.Endpoint.complete, client.Endpoint._once
    under_way: dict[str, Sent] = {}

    async def completing(self: Any, messages: Any, *, request_id: str, **options: Any) -> Any:
        row = under_way[request_id] = Sent(request_id, time.perf_counter())
        reply = await complete(self, messages, request_id=request_id, **options)
        row.ended = time.perf_counter()
        sent.append(row)
        return reply

    async def sending(self: Any, messages: Any, model: str, request_id: str, body: dict[str, Any]) -> Any:
        rows = [{"role": message.role, "content": message.content} for message in messages]
        under_way[request_id].body = json.dumps({**body, "model": model, "messages": rows}).encode()
        return await once(self, messages, model, request_id, body)

    client.Endpoint.complete, client.Endpoint._once = completing, sending  # type: ignore[method-assign]
    try:
        yield sent
    finally:
        client.Endpoint.complete, client.Endpoint._once = complete, once  # type: ignore[method-assign]


def by_question(sent: Sequence[Sent]) -> list[list[Sent]]:
    """The requests of each question, in order."""
    rows: dict[str, list[Sent]] = {}
    for row in sorted(sent, key=lambda row: row.asked):
        rows.setdefault(row.id.partition(".")[0], []).append(row)
    return list(rows.values())


def depths(rows: Sequence[Sent], cost: Callable[[Sent], float]) -> dict[str, float]:
    """Earliest end of each request of a question, if it only waits for those it depends on."""
    found: dict[str, float] = {}
    for row in rows:
        found[row.id] = cost(row) + max((found[other.id] for other in row.before(rows)), default=0.0)
    return found


async def send_again(url: str, sent: Sequence[Sent], slots: int) -> float:
    """Seconds of a bare client that sends each request as soon as those before it are answered."""

    async def ask(post: Callable[[Sent], Any], row: Sent, waited: list[asyncio.Task[None]]) -> None:
        if waited:
            await asyncio.wait(waited)
        await post(row)

    async with bare_client(url, slots) as post:
        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number, rows in enumerate(by_question(sent)):
                priority.set(number)
                tasks: dict[str, asyncio.Task[None]] = {}
                for row in rows:
                    waited = [tasks[other.id] for other in row.before(rows)]
                    tasks[row.id] = group.create_task(ask(post, row, waited))
        return time.perf_counter() - started


async def send_in_lock_step(url: str, sent: Sequence[Sent], slots: int) -> float:
    """Seconds of a bare client that sends all questions' second calls after all first ones are answered, and so on."""
    steps: list[list[Sent]] = []
    for rows in by_question(sent):
        depth = depths(rows, lambda row: 1)
        for row in rows:
            while len(steps) < depth[row.id]:
                steps.append([])
            steps[int(depth[row.id]) - 1].append(row)
    async with bare_client(url, slots) as post:
        started = time.perf_counter()
        for step in steps:
            await asyncio.gather(*(post(row) for row in step))
        return time.perf_counter() - started


class bare_client:
    """A client that only sends: `async with bare_client(url, slots) as post`."""

    def __init__(self, url: str, slots: int) -> None:
        self._url = f"{url}/chat/completions"
        self._limiter = Limiter(slots)

    async def __aenter__(self) -> Callable[[Sent], Any]:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            headers={"Content-Type": "application/json"},
        )
        return self._post

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def _post(self, row: Sent) -> None:
        headers = {"X-Request-Id": row.id}
        async with self._limiter.attempt(), self._session.post(self._url, data=row.body, headers=headers) as answer:
            await answer.read()
            answer.raise_for_status()
