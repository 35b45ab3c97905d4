"""How close an evaluation comes to what its endpoint can do, and how far it leaves lock-step batches behind.

    hopgraph index DATA/2wikimultihopqa/corpus.jsonl.gz --name 2wiki
    python benchmarks/saturation.py DATA/2wikimultihopqa/questions.jsonl.gz --dataset 2wikimultihopqa --index 2wiki

Without --url perfect agents in a process of their own play the model; every reply takes one second, and 64 are made at
a time. With --spread replies take times as unlike as their lengths would be: log-normal, with the same mean. With --url
a real server is asked (vLLM's cache is reset in between, where it allows that).

Each method is run as `hopgraph eval` runs it, and the requests it makes are recorded: what was asked, and which replies
there were before. Then a bare client sends the very same requests again through the same endpoint, each as soon as
those before it are answered: the physical limit, for it searches nothing, checks nothing and keeps nothing. Then it
sends them in lock-step, as toolkits do that take a whole batch from step to step: the second calls of all questions go
out when all first ones are answered. `bare` and `lock-step` are their times divided by ours: 1 is as fast as can be.

`ideal` is max(seconds of all replies / slots, CPU time of the evaluation / cores) plus the longest chain of calls, and
`x ideal` our time divided by it. What is started once (imports, opening the index) is done before the clock starts, by
a run of two questions. CompactRAG takes part if the index has a knowledge base (`hopgraph read --perfect`).
"""

from __future__ import annotations

import asyncio
import json
import math
import multiprocessing
import os
import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any, Protocol

import aiohttp
import typer

from hopgraph.evaluation import plan, runner
from hopgraph.evaluation.data import Question, read_questions, sample
from hopgraph.evaluation.folder import RunFolder
from hopgraph.methods import METHODS
from hopgraph.simulation.agents import PerfectAgents
from hopgraph.simulation.endpoint import Endpoint
from hopgraph.simulation.gold import cases_of
from hopgraph.simulation.playing import gold_passages
from inference import endpoint as client
from inference.errors import HopgraphError
from inference.settings import get_settings
from inference.slots import Slots, turn

WORST, LEAST, LOCK_STEP = 1.15, 0.95, 1.5
"""Goals: our time against the ideal one, the bare client's against ours, and lock-step's against ours."""


def main(
    questions: Annotated[Path, typer.Argument(help="Questions; for the simulation with gold decompositions.")],
    dataset: Annotated[str, typer.Option(help="Their dataset.")] = "own",
    index: Annotated[str, typer.Option(help="Index to search.")] = "",
    method: Annotated[str, typer.Option(help="Methods, with commas between them. Default: all.")] = "",
    limit: Annotated[int, typer.Option(help="How many questions.")] = 200,
    latency: Annotated[float, typer.Option(help="Seconds of a simulated reply.")] = 1.0,
    slots: Annotated[int, typer.Option(help="Replies at a time.")] = 64,
    spread: Annotated[float, typer.Option(help="Of simulated replies' times: sigma of a log-normal.")] = 0.0,
    url: Annotated[str, typer.Option(help="A real endpoint instead of the simulation.")] = "",
    max_tokens: Annotated[int, typer.Option(help="Longest reply, of a real endpoint.")] = 128,
) -> None:
    """Print the time of each method beside the three others; exit code 1 if a goal is missed."""
    asked = sample(read_questions(questions, dataset), limit, seed=0)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {len(asked)} questions of {dataset}, {index}")
    times = ReplyTimes(latency, spread)
    print((url and f"{url}, {slots} at a time\n") or f"simulated: {times}, {slots} slots\n")
    head = f"{'method':<14}{'calls':>7}{'chain':>7}{'CPU s':>8}{'ours s':>8}{'bare':>7}{'lock-step':>11}"
    print(head if url else f"{head}{'ideal s':>9}{'x ideal':>9}")
    values: dict[str, Any] = {"index": index} if index else {}
    missed = False
    with serving(asked, index, times, slots, url) as address:
        os.environ |= {"HOPGRAPH_LLM_URL": address, "HOPGRAPH_LLM_CONCURRENCY": str(slots), "HOPGRAPH_CACHE": "off"}
        get_settings.cache_clear()
        values |= {"max_tokens": max_tokens} if url else {}
        for name in method.split(",") if method else METHODS:
            try:
                evaluate(name, asked[:2], dataset, values)
                forget(url)
                with recording() as sent:
                    row = evaluate(name, asked, dataset, values)
            except HopgraphError as error:
                print(f"{name:<14} not measured: {error.message}")
                continue
            forget(url)
            bare = asyncio.run(send_again(address, sent, slots)) / row["seconds"]
            forget(url)
            lock_step = asyncio.run(send_in_lock_step(address, sent, slots)) / row["seconds"]
            chain = max(max(depths(rows, lambda row: 1).values()) for rows in by_question(sent))
            line = f"{name:<14}{len(sent):>7,}{chain:>7.0f}{row['cpu']:>8.1f}{row['seconds']:>8.1f}"
            line += f"{bare:>7.2f}{lock_step:>11.2f}"
            wrong = ["bare"] if bare < LEAST else []
            # Where all replies take as long as each other, or a question has one call, there is no step to wait for.
            wrong += ["lock-step"] if lock_step < LOCK_STEP and chain > 1 and (spread or url) else []
            if not url:
                longest = max(max(depths(rows, times.of).values()) for rows in by_question(sent))
                ideal = max(sum(map(times.of, sent)) / slots, row["cpu"] / (os.cpu_count() or 1)) + longest
                line += f"{ideal:>9.1f}{row['seconds'] / ideal:>9.2f}"
                wrong += ["x ideal"] if row["seconds"] / ideal > WORST else []
            print(line + ("   misses " + ", ".join(wrong) if wrong else ""), flush=True)
            missed |= bool(wrong)
    raise SystemExit(int(missed))


@dataclass(frozen=True)
class ReplyTimes:
    """How long simulated replies take."""

    mean: float
    spread: float = 0.0

    def of(self, request: HasId) -> float:
        """Seconds that the reply to a request takes: the same whenever it is sent."""
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
    """The endpoint's URL: a simulated one's is in another process, so that its work is not taken for the client's."""
    if url:
        yield url
        return
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there, list(questions), index, times, slots), daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        process.terminate()
        process.join()


def serve(pipe: Connection, questions: list[Question], index: str, times: ReplyTimes, slots: int) -> None:
    """What that process does."""
    agents = PerfectAgents(cases_of(questions, gold_passages(questions, index or None)))
    with Endpoint(agents, "simulated-perfect", latency=times.of, slots=slots).running() as endpoint:
        pipe.send(endpoint.url)
        time.sleep(24 * 3600)


def evaluate(method: str, questions: Sequence[Question], dataset: str, values: dict[str, Any]) -> dict[str, float]:
    """Run the questions as `hopgraph eval` does; gives CPU seconds and seconds."""
    variants = plan.plain_variants([method], values)
    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder(Path(place) / "run")
        about: dict[str, Any] = {"dataset": dataset, "file": "", "limit": None, "seed": None, "set": {}}

        async def run() -> tuple[float, float]:
            found = await runner.check(variants, questions, dataset=dataset, contexts=False)
            runner.start(folder, variants, questions, found, about)
            todo = runner.unfinished(folder, variants, questions)
            started, cpu = time.perf_counter(), cpu_seconds()
            await runner.run_jobs(folder, todo)
            return time.perf_counter() - started, cpu_seconds() - cpu

        seconds, cpu = asyncio.run(run())
        lines: list[dict[str, Any]] = list(folder.results)
    if any((line.get("error") or {}).get("kind") in runner.RETRIED for line in lines):
        raise SystemExit(f"{method}: calls failed: {next(line['error'] for line in lines if line.get('error'))}")
    return {"cpu": cpu, "seconds": seconds}


@dataclass
class Sent:
    """A request as it was made."""

    id: str
    asked: float
    """When the method wanted it; it may have waited for its turn then."""
    ended: float = 0.0
    body: bytes = b""

    def before(self, others: Sequence[Sent]) -> list[Sent]:
        """Those requests of the same question whose replies were there when it was made."""
        return [other for other in others if other.ended <= self.asked]


@contextmanager
def recording() -> Iterator[list[Sent]]:
    """What Hopgraph's client sends while the context lasts."""
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
    """The requests of each question, in the order in which they were made."""
    rows: dict[str, list[Sent]] = {}
    for row in sorted(sent, key=lambda row: row.asked):
        rows.setdefault(row.id.partition(".")[0], []).append(row)
    return list(rows.values())


def depths(rows: Sequence[Sent], cost: Callable[[Sent], float]) -> dict[str, float]:
    """What each request of a question ends at, if each costs so much and waits for nothing but those before it."""
    found: dict[str, float] = {}
    for row in rows:
        found[row.id] = cost(row) + max((found[other.id] for other in row.before(rows)), default=0.0)
    return found


async def send_again(url: str, sent: Sequence[Sent], slots: int) -> float:
    """Seconds that a bare client needs for them, each sent as soon as those before it are answered."""

    async def ask(post: Callable[[Sent], Any], row: Sent, waited: list[asyncio.Task[None]]) -> None:
        if waited:
            await asyncio.wait(waited)
        await post(row)

    async with bare_client(url, slots) as post:
        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number, rows in enumerate(by_question(sent)):
                turn.set(number)
                tasks: dict[str, asyncio.Task[None]] = {}
                for row in rows:
                    waited = [tasks[other.id] for other in row.before(rows)]
                    tasks[row.id] = group.create_task(ask(post, row, waited))
        return time.perf_counter() - started


async def send_in_lock_step(url: str, sent: Sequence[Sent], slots: int) -> float:
    """Seconds it needs if all questions' first calls are answered before any second one is made, and so on."""
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
    """A client that does nothing but send: `async with bare_client(url, slots) as post`."""

    def __init__(self, url: str, slots: int) -> None:
        self._url = f"{url}/chat/completions"
        self._slots = Slots(slots)

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
        async with self._slots, self._session.post(self._url, data=row.body, headers=headers) as answer:
            await answer.read()
            answer.raise_for_status()


def forget(url: str) -> None:
    """Have a real server forget its prefixes, if it is one that can: vLLM with VLLM_SERVER_DEV_MODE=1."""

    async def reset() -> None:
        async with aiohttp.ClientSession() as session:
            await session.post(f"{url.removesuffix('/v1')}/reset_prefix_cache")

    if url:
        asyncio.run(reset())


def cpu_seconds() -> float:
    """CPU time of this process with all its threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    typer.run(main)
