"""Endpoints of the benchmarks: a simulated one in its own process, or a real one; and a CPU clock."""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import random
import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Protocol

import aiohttp

from hopgraph.evaluation.data import Question
from hopgraph.evaluation.gold import gold_passages
from hopgraph.simulation.agents import PerfectAgents
from hopgraph.simulation.endpoint import Endpoint
from hopgraph.simulation.gold import cases_of
from inference.errors import HopgraphError


@dataclass(frozen=True)
class ReplyTimes:
    """Durations of simulated replies."""

    mean: float
    spread: float = 0.0

    def of(self, request: HasId) -> float:
        """Seconds of the reply to a request; deterministic."""
        if not self.spread:
            return self.mean
        normal = random.Random(request.id).gauss(0.0, self.spread)
        return self.mean * math.exp(normal - self.spread**2 / 2)

    def __str__(self) -> str:
        return f"{self.mean:g} s a reply" + (f", log-normal with sigma {self.spread:g}" if self.spread else "")


class HasId(Protocol):
    """A request."""

    @property
    def id(self) -> str:
        """Its `X-Request-Id`."""


@contextmanager
def serving(questions: Sequence[Question], index: str, times: ReplyTimes, slots: int, url: str = "") -> Iterator[str]:
    """The endpoint's URL; a simulated one runs in another process, so that its CPU time is not counted."""
    if url:
        yield url
        return
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there, list(questions), index, times, slots), daemon=True)
    process.start()
    there.close()
    try:
        try:
            address = here.recv()
        except EOFError:
            raise SystemExit(1) from None  # it has printed the reason
        yield address
    finally:
        process.terminate()
        process.join()


def serve(pipe: Connection, questions: list[Question], index: str, times: ReplyTimes, slots: int) -> None:
    """What that process does."""
    try:
        agents = PerfectAgents(cases_of(questions, gold_passages(questions, index or None)))
    except HopgraphError as error:
        raise SystemExit(f"the simulated endpoint can't start: {error}") from None
    with Endpoint(agents, "simulated-perfect", latency=times.of, slots=slots).running() as endpoint:
        pipe.send(endpoint.url)
        time.sleep(24 * 3600)


def forget(url: str) -> None:
    """Reset a real server's prefix cache, if supported: vLLM with VLLM_SERVER_DEV_MODE=1."""

    async def reset() -> None:
        async with aiohttp.ClientSession() as session:
            await session.post(f"{url.removesuffix('/v1')}/reset_prefix_cache")

    if url:
        asyncio.run(reset())


def cpu_seconds() -> float:
    """CPU time of this process with all its threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
