"""Load of `hopgraph serve`: the time it adds, its memory, and the end of a replica.

    python benchmarks/chats.py [--method no_retrieval,standard_rag,prism] [--replicas N]

A simulated endpoint in a process of its own takes a second for each reply. 200 clients send one chat after another. The
time added to a chat is its time at the client less the time in which at least one of its calls was at the endpoint:
all that Hopgraph does, and waiting for a processor. `ask` is the same without the server, 200 questions at a time in
one process by `hopgraph.run.ask`; the difference is what the door adds. The index has five passages. Each row begins
with chats that are not counted.

Then 10,000 chats with replies of 50 ms; the server's memory (RSS) is read after every thousand.

Then two replicas on one Postgres (extra dev) serve all methods, and one of them is killed with SIGKILL: the other one
gets the same requests on the same threads. No call may be made again whose reply had been committed.
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import aiohttp
import typer

sys.path.insert(0, str(Path(__file__).parents[1]))

from simulated import RepliesAfter, busy_seconds

from hopgraph import loop
from hopgraph.run import ask, make_context, new_thread
from inference.settings import get_settings
from stores.checkpoints import open_checkpoints
from tests.postgres import running_postgres
from tests.replicas import address, kill_a_replica, serving
from tests.small import INDEX, build_small

ADDED, GROWTH = 50.0, 1.05
"""Goals: milliseconds that the door adds at the 99th percentile; memory after all chats by that after a fifth."""
PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Load:
    """Chats that were sent."""

    seconds: float = 0.0
    """From the first to the last that is counted."""
    times: dict[str, float] = field(default_factory=dict)
    """Seconds of each chat, by thread."""
    failed: list[str] = field(default_factory=list)

    def added(self, busy: dict[str, float]) -> list[float]:
        """Milliseconds of each chat outside of the endpoint, in ascending order."""
        return sorted(1e3 * (seconds - busy[thread]) for thread, seconds in self.times.items())


def main(
    method: Annotated[str, typer.Option(help="Methods, with commas between them.")] = "no_retrieval,standard_rag,prism",
    clients: Annotated[int, typer.Option(help="Chats at a time.")] = 200,
    latency: Annotated[float, typer.Option(help="Seconds of a reply.")] = 1.0,
    seconds: Annotated[float, typer.Option(help="Seconds of each row; 0: no rows.")] = 30.0,
    replicas: Annotated[int, typer.Option(help="Servers that share the clients.")] = 1,
    requests: Annotated[int, typer.Option(help="Chats of the memory test; 0: none.")] = 10_000,
    kills: Annotated[int, typer.Option(help="Rounds of killing a replica.")] = 3,
) -> None:
    """Print the tables; exit code 1 if a goal is missed."""
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {clients} chats at a time, {latency:g} s a reply\n")
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        os.environ |= {"HOPGRAPH_HOME": place, "HOPGRAPH_LLM_CONCURRENCY": "1024", "HOPGRAPH_CACHE": "off"}
        get_settings.cache_clear()
        build_small()
        missed = False
        if seconds:
            head = f"{'':<14}{'':<12}{'chats':>8}{'a second':>10}{'added ms: p50':>15}{'p95':>8}{'p99':>8}"
            print(f"{head}{'CPU ms a chat':>15}")
            for name in method.split(","):
                missed |= timed(home, name, clients, latency, seconds, replicas)
        if requests:
            missed |= remembered(home, clients, requests)
        for number in range(kills):
            missed |= killed(home, number)
    raise SystemExit(int(missed))


def timed(home: Path, method: str, clients: int, latency: float, seconds: float, replicas: int) -> bool:
    """Three rows of a method; whether the goal is missed."""
    at99 = []
    for row, stream in (("ask", None), ("serve", False), ("streaming", True)):
        with RepliesAfter(latency) as endpoint, ExitStack() as stack:
            environment = {"HOPGRAPH_LLM_URL": endpoint.url, "HOPGRAPH_CHECKPOINTS": str(home / f"{method}-{row}.db")}
            environment |= {name: os.environ[name] for name in ("HOPGRAPH_LLM_CONCURRENCY", "HOPGRAPH_CACHE")}
            if stream is None:
                load, cpu = directly(environment, method, clients, seconds)
            else:
                servers = [stack.enter_context(serving(home, environment)) for _ in range(replicas)]
                urls = itertools.cycle([address(server) for server in servers])
                start = sum(cpu_seconds(server.pid) for server in servers)
                load = loop.run(chats(urls, method, clients, stream=stream, seconds=seconds))
                cpu = sum(cpu_seconds(server.pid) for server in servers) - start
            added = load.added(busy_seconds(endpoint.log()))
        for problem in load.failed[:3]:
            print(f"failed: {problem}")
        at99.append(percentile(added, 99))
        over = f"   door: {at99[-1] - at99[0]:+.0f} ms" if stream is not None else ""
        print(
            f"{method if stream is None else '':<14}{row:<12}{len(added):>8,}{len(added) / load.seconds:>10.1f}"
            f"{percentile(added, 50):>15.0f}{percentile(added, 95):>8.0f}{at99[-1]:>8.0f}"
            f"{1e3 * cpu / max(len(added), 1):>15.1f}{over}",
            flush=True,
        )
    return max(at99[1:]) - at99[0] > ADDED


async def chats(
    urls: Any, method: str, clients: int, *, stream: bool, seconds: float = 0.0, requests: int = 0,
    every: Callable[[int], None] | None = None,
) -> Load:  # fmt: skip
    """Send chats for so long, or so many."""
    timeout = aiohttp.ClientTimeout(300)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:

        async def one(number: int) -> tuple[str, str]:
            messages = [{"role": "user", "content": f"Where was the director of film {number} born?"}]
            body = {"model": method, "messages": messages, "stream": stream}
            async with session.post(f"{next(urls)}/chat/completions", json=body) as response:
                text = await response.text()
                done = response.status == 200 and (not stream or text.rstrip().endswith("[DONE]"))
                return response.headers.get("x-hopgraph-thread", ""), "" if done else text[-300:]

        return await sent(one, clients, seconds, requests, every)


def directly(environment: dict[str, str], method: str, clients: int, seconds: float) -> tuple[Load, float]:
    """The same without the server, in a process of its own; also its CPU seconds."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_directly, (environment, method, clients, seconds))


def _directly(environment: dict[str, str], method: str, clients: int, seconds: float) -> tuple[Load, float]:
    os.environ |= environment
    get_settings.cache_clear()

    async def run() -> Load:
        async with open_checkpoints() as saver:

            async def one(number: int) -> tuple[str, str]:
                context = make_context(method, {"index": INDEX} if method != "no_retrieval" else {})
                thread = new_thread(context)
                found = await ask(f"Where was the director of film {number} born?", context, saver, thread=thread)
                return thread, found["error"]["message"] if "error" in found else ""

            return await sent(one, clients, seconds)

    start = cpu_seconds(os.getpid())
    return loop.run(run()), cpu_seconds(os.getpid()) - start


async def sent(
    one: Callable[[int], Awaitable[tuple[str, str]]], clients: int, seconds: float = 0.0, requests: int = 0,
    every: Callable[[int], None] | None = None,
) -> Load:  # fmt: skip
    """Have clients send one after another; the first third of the seconds is not counted."""
    load = Load()
    numbers = itertools.count()
    began = time.monotonic()
    counted, end = began + seconds / 3, began + seconds

    async def client(number: int) -> None:
        await asyncio.sleep(number / clients if seconds else 0)  # not all in the same moment
        for n in numbers:
            if n >= requests if requests else time.monotonic() >= end:
                return
            start = time.monotonic()
            thread, problem = await one(n)
            if problem:
                load.failed.append(problem)
            elif start >= counted:
                load.times[thread] = time.monotonic() - start
            if every:
                every(n)

    await asyncio.gather(*map(client, range(clients)))
    load.seconds = time.monotonic() - counted
    return load


def remembered(home: Path, clients: int, requests: int) -> bool:
    """Memory over many chats; whether the goal is missed."""
    sizes: dict[int, float] = {}
    done = itertools.count(1)
    with RepliesAfter(0.05) as endpoint:
        environment = {"HOPGRAPH_LLM_URL": endpoint.url, "HOPGRAPH_CHECKPOINTS": str(home / "memory.db")}
        with serving(home, environment | {"HOPGRAPH_LLM_CONCURRENCY": "1024"}) as server:
            urls = itertools.cycle([address(server)])

            def read(_: int) -> None:
                if (number := next(done)) % (requests // 10) == 0:
                    sizes[number] = resident(server.pid) / 1e6

            load = loop.run(chats(urls, "standard_rag", clients, stream=True, requests=requests, every=read))
    growth = sizes[requests] / sizes[requests // 5]
    print(f"\nMB after so many of {requests:,} streamed chats ({len(load.failed)} failed, {load.seconds:.0f} s):")
    print("  " + "  ".join(f"{number:,}: {size:.0f}" for number, size in sizes.items()))
    print(f"  after all of them {growth:.3f} of that after a fifth of them", flush=True)
    return growth > GROWTH or bool(load.failed)


def killed(home: Path, number: int) -> bool:
    """A killed replica; whether a call was lost or repeated."""
    with running_postgres() as url:
        outcome = kill_a_replica(home, url, 26)
    if not number:
        head = f"{'kill':<8}{'chats':>10}{'unfinished':>12}{'calls':>8}{'in flight':>11}{'made again':>12}"
        print(f"\n{head}{'committed':>18}")
    print(
        f"{number + 1:<8}{outcome.chats:>10}{outcome.cut:>12}{outcome.calls:>8}{outcome.in_flight:>11}"
        f"{outcome.repeated:>12}{len(outcome.committed_again):>18}",
        flush=True,
    )
    for problem in outcome.problems:
        print(problem)
    return bool(outcome.problems)


def percentile(values: Sequence[float], share: int) -> float:
    """A percentile of at least two values."""
    return statistics.quantiles(values, n=100, method="inclusive")[share - 1] if len(values) > 1 else float("nan")


def cpu_seconds(pid: int) -> float:
    """CPU time of a process with all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def resident(pid: int) -> int:
    """Bytes of a process in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


if __name__ == "__main__":
    typer.run(main)
