"""Throughput of `HOPGRAPH_LLM_CONCURRENCY=auto` relative to the best fixed value, over HTTP.

    python benchmarks/limiter.py        # 15 minutes

Endpoints of 1 to 256 slots (excess requests wait there), silent or telling their load as vLLM does; some that slow down
beyond 8 to 64 requests, so that all get less done; one that refuses more than 32 at a time, one more than 20 a second.
They run in a process of their own. Each gets 200 questions of `--chain` calls, one after the other, by the client that
Hopgraph uses, without anything else: with the number that is right for the endpoint, and with auto. 10 questions for
the one slot. Replies of endpoints for few calls take a quarter or half of `--latency`. `ideal` is all replies' seconds
by slots, and one chain. Exit code 1 if auto takes more than 1.15 of the ideal, or more than 1.1 of the fixed value, or
if a call fails.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Annotated, Literal, NamedTuple

import typer

from hopgraph.simulation.endpoint import Completion, Request
from hopgraph.simulation.endpoint import Endpoint as Simulated
from inference.chat import Message
from inference.endpoint import Endpoint
from inference.limiter import priority
from inference.settings import Settings

WORST, WORST_BESIDE_FIXED = 1.15, 1.10


@dataclass(frozen=True)
class Kind:
    """An endpoint."""

    name: str
    best: int
    """The best concurrency."""
    questions: int = 200
    speed: float = 1.0
    """Divisor of `--latency` for its replies."""
    slots: int | None = None
    tells: bool = False
    most: int | None = None
    knee: int | None = None
    rate: int | None = None


KINDS = [
    *(
        Kind(f"{slots} slot{'s' * (slots > 1)}, silent", slots, 10 if slots == 1 else 200, speed, slots)
        for slots, speed in ((1, 4), (8, 4), (16, 4), (32, 2), (64, 1), (256, 1))
    ),
    *(
        Kind(f"{slots} slots, tells", slots, speed=speed, slots=slots, tells=True)
        for slots, speed in ((8, 4), (64, 1), (256, 1))
    ),
    *(
        Kind(f"slower beyond {knee}", knee, speed=speed, knee=knee)
        for knee, speed in ((8, 2), (16, 2), (32, 1), (64, 1))
    ),
    Kind("refuses beyond 32", 32, most=32),
    Kind("refuses beyond 20 a second", 20, rate=20),
]


class Rationing(Simulated):
    """An endpoint with a rate limit per second."""

    rate: int | None = None
    _second = _taken = 0

    def enter(self) -> bool:
        """Whether a request is accepted."""
        with self._counting:
            second = int(time.monotonic())
            self._second, self._taken = second, self._taken if second == self._second else 0
            self._taken += 1
            over = self.rate is not None and self._taken > self.rate
            self.refused += over
        return not over and super().enter()


def main(
    latency: Annotated[float, typer.Option(help="Seconds of a reply.")] = 1.0,
    chain: Annotated[int, typer.Option(help="Calls of a question.")] = 6,
    only: Annotated[str, typer.Option(help="Endpoints whose names contain this.")] = "",
) -> None:
    """Print the table."""
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {latency:g} s a reply, {chain} calls a question\n")
    print(
        "| endpoint | ideal s | fixed s | with | auto s | auto / ideal | auto / fixed | refused | CPU s, ours and its |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    missed = False
    for kind in (kind for kind in KINDS if only in kind.name):
        reply = latency / kind.speed
        ideal = reply * (kind.questions * chain / kind.best + chain)
        fixed = measure(kind, kind.best, reply, chain)
        auto = measure(kind, "auto", reply, chain)
        missed |= auto.seconds > WORST * ideal or auto.seconds > WORST_BESIDE_FIXED * fixed.seconds
        row = f"| {kind.name} | {ideal:.1f} | {fixed.seconds:.1f} | {kind.best} | {auto.seconds:.1f} "
        row += f"| {auto.seconds / ideal:.2f} | {auto.seconds / fixed.seconds:.2f} | {auto.refused} "
        print(f"{row}| {auto.cpu:.1f}, {auto.server_cpu:.1f} |", flush=True)
    raise SystemExit(int(missed))


class Taken(NamedTuple):
    """What 200 questions took."""

    seconds: float
    cpu: float
    refused: int
    server_cpu: float


def measure(kind: Kind, limit: int | Literal["auto"], latency: float, chain: int) -> Taken:
    """An error of any call is raised."""
    with serving(kind, latency) as (url, pipe):
        before = time.process_time()
        seconds = asyncio.run(ask(url, limit, kind.questions, chain))
        cpu = time.process_time() - before
        pipe.send(None)
        return Taken(seconds, cpu, *pipe.recv())


async def ask(url: str, limit: int | Literal["auto"], questions: int, chain: int) -> float:
    """Seconds for all questions."""
    endpoint = Endpoint(url, "simulated", Settings(llm_concurrency=limit))
    await endpoint.describe()

    async def one(number: int) -> None:
        priority.set(0)  # equal priorities, as at the end of an evaluation
        for step in range(chain):
            await endpoint.complete([Message("user", "x")], request_id=f"{number}-{step}")

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(questions):
            group.create_task(one(number))
    taken = time.perf_counter() - started
    await endpoint.close()
    return taken


@contextmanager
def serving(kind: Kind, latency: float) -> Iterator[tuple[str, Connection]]:
    """Run the endpoint in its own process; gives its URL, and a pipe that returns refusals and CPU seconds."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there, kind, latency), daemon=True)
    process.start()
    try:
        yield here.recv(), here
    finally:
        process.terminate()
        process.join()


def serve(pipe: Connection, kind: Kind, latency: float) -> None:
    """What that process does."""

    def seconds(_: Request) -> float:
        return latency * max(1.0, endpoint.in_flight / (kind.knee or 10_000)) ** 1.5

    endpoint = Rationing(
        lambda _: Completion("x"), "simulated", latency=seconds, slots=kind.slots, tells=kind.tells, most=kind.most
    )
    endpoint.rate = kind.rate
    with endpoint.running():
        pipe.send(endpoint.url)
        pipe.recv()
        pipe.send((endpoint.refused, time.process_time()))
        time.sleep(3600)


if __name__ == "__main__":
    typer.run(main)
