"""How close `HOPGRAPH_LLM_CONCURRENCY=auto` comes to the best fixed value, over HTTP.

    python benchmarks/limiter.py        # 25 minutes

Endpoints of 1, 8, 64 and 256 slots (excess requests wait there), silent or telling their load as vLLM does; one that
slows down beyond 64 requests; one that refuses more than 32 at a time. They run in a process of their own. Each gets
200 questions of `--chain` calls, one after the other, by the client that Hopgraph uses, without anything else: with
the fixed values 16, the endpoint's own number and 256, and with auto. 10 questions for the one slot, 60 for eight.
`ideal` is all replies' seconds by slots, and one chain. Exit code 1 if auto takes more than 1.15 of the ideal, or
more than 1.1 of the best fixed value, or if a call fails.
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
from typing import Annotated, Literal

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
    """How many calls at a time are right for it."""
    questions: int = 200
    slots: int | None = None
    tells: bool = False
    most: int | None = None
    knee: int | None = None


KINDS = [
    *(
        Kind(f"{slots} slots, {'tells' if tells else 'silent'}", slots, questions, slots, tells)
        for slots, questions in ((1, 10), (8, 60), (64, 200), (256, 200))
        for tells in (True, False)
    ),
    Kind("slower beyond 64", 64, knee=64),
    Kind("refuses beyond 32", 32, most=32),
]


def main(
    latency: Annotated[float, typer.Option(help="Seconds of a reply.")] = 1.0,
    chain: Annotated[int, typer.Option(help="Calls of a question.")] = 6,
    only: Annotated[str, typer.Option(help="Endpoints whose names contain this.")] = "",
) -> None:
    """Print the table."""
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {latency:g} s a reply, {chain} calls a question\n")
    print("| endpoint | ideal s | best fixed s | with | 16, s | auto s | auto / ideal | auto / best | refused |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    missed = False
    for kind in (kind for kind in KINDS if only in kind.name):
        ideal = latency * (kind.questions * chain / kind.best + chain)
        fixed = {}
        for limit in sorted({kind.best, 16, 256} if kind.most is None and kind.knee is None else {kind.best, 16}):
            fixed[limit] = measure(kind, limit, latency, chain)[0]
        best = min(fixed, key=lambda limit: fixed[limit])
        taken, refused = measure(kind, "auto", latency, chain)
        missed |= taken > WORST * ideal or taken > WORST_BESIDE_FIXED * fixed[best]
        row = f"| {kind.name} | {ideal:.1f} | {fixed[best]:.1f} | {best} | {fixed[16]:.1f} | {taken:.1f} "
        print(f"{row}| {taken / ideal:.2f} | {taken / fixed[best]:.2f} | {refused} |", flush=True)
    raise SystemExit(int(missed))


def measure(kind: Kind, limit: int | Literal["auto"], latency: float, chain: int) -> tuple[float, int]:
    """Seconds, and how many requests were refused; an error of any call is raised."""
    with serving(kind, latency) as (url, pipe):
        taken = asyncio.run(ask(url, limit, kind.questions, chain))
        pipe.send(None)
        return taken, pipe.recv()


async def ask(url: str, limit: int | Literal["auto"], questions: int, chain: int) -> float:
    """Seconds for all questions."""
    endpoint = Endpoint(url, "simulated", Settings(llm_concurrency=limit))
    await endpoint.describe()

    async def one(number: int) -> None:
        priority.set(0)  # all take turns, as at the end of an evaluation
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
    """The endpoint in a process of its own: its URL, and a pipe that gives the number of refusals when it is asked."""
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

    endpoint = Simulated(
        lambda _: Completion("x"), "simulated", latency=seconds, slots=kind.slots, tells=kind.tells, most=kind.most
    )
    with endpoint.running():
        pipe.send(endpoint.url)
        pipe.recv()
        pipe.send(endpoint.refused)
        time.sleep(3600)


if __name__ == "__main__":
    typer.run(main)
