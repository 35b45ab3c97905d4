"""Kills a process that runs all methods side by side, at random moments, and has another one go on.

In a round, a process runs two threads of every graph. It is killed with SIGKILL at a random moment and started again,
up to `MOST_KILLS` times. Then `hopgraph resume` resumes one of the interrupted threads, and a last process the others.
Every round begins with an empty checkpoint store. Its threads, and with them the model's replies, are those of a few
uninterrupted runs, so that the results can be compared.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from hopgraph.cli import run_app
from hopgraph.methods import READERS, context_class, load
from hopgraph.run import ask, make_context, resume
from inference.settings import get_settings
from stores.checkpoints import kept_threads, open_checkpoints
from tests.replies import proper_text
from tests.scripted import Completion, Request, ScriptedModel
from tests.small import GRAPHS, INDEX, QUESTION, VARIANTS, build_small, given

__all__ = ["Report", "kill_at_random"]

PLAYS = 4
"""Different sets of replies."""
EACH = 2
"""Threads of a graph in a process."""
LONGEST_REPLY = 0.06
"""Seconds that the model takes for a reply at most."""
MOST_KILLS = 5
"""Kills of a round at most."""
LATEST_COMMIT = 2.0
"""Seconds in which an answered call is on disk, unless the machine is starved."""
PRELOADED = ["hopgraph.cli", "hopgraph.run", "aiohttp", "chromadb", "bm25s", "spacy", "onnxruntime", "tests.small"]


@dataclass
class Report:
    """Outcome of one round, or the sum of several."""

    rounds: int = 0
    kills: int = 0
    """Processes that were killed before they ended."""
    threads: int = 0
    interrupted: int = 0
    """Threads that had begun and not ended when their process was killed."""
    by_command: list[str] = field(default_factory=list)
    """Interrupted threads that `hopgraph resume` resumed."""
    calls: int = 0
    in_flight: int = 0
    """Calls that were under way, or answered and not yet committed, at a kill."""
    repeated: int = 0
    """Of those: made again. No other call may be."""
    committed_again: list[str] = field(default_factory=list)
    """Calls whose result was on disk and that were made again."""
    late: list[str] = field(default_factory=list)
    """Calls that were answered long before the kill and not on disk: a starved machine has such."""
    lost: list[str] = field(default_factory=list)
    """Threads that did not end."""
    different: list[str] = field(default_factory=list)
    """Threads that ended otherwise than without a kill."""

    @classmethod
    def total(cls, reports: Iterable[Report]) -> Report:
        """The sum of several reports."""
        total = cls()
        for report in reports:
            for row in fields(cls):
                setattr(total, row.name, getattr(total, row.name) + getattr(report, row.name))
        return total

    @property
    def problems(self) -> list[str]:
        """All that must not be."""
        return [
            *(f"made again although committed: {key}" for key in self.committed_again),
            *(f"lost: {key}" for key in self.lost),
            *(f"another result: {key}" for key in self.different),
        ]


def kill_at_random(
    kills: int,
    seed: int = 0,
    log: Path | None = None,
    on_round: Callable[[Report], None] | None = None,
    postgres: str | None = None,
) -> Report:
    """Kill that many processes, or a few more: a round is always finished. See the module.

    Args:
        kills: Number of kills, those in the log included.
        seed: Seed of the random moments.
        log: File (JSON Lines) to which the outcome of each round is appended. Rounds that it has are not run again.
        on_round: Called with the sum so far after every round.
        postgres: URL of a database for the checkpoints; default: a file.
    """
    rounds = [Report(**json.loads(line)) for line in log.read_text().splitlines()] if log and log.exists() else []
    if Report.total(rounds).kills >= kills:
        return Report.total(rounds)
    with tempfile.TemporaryDirectory() as folder, ScriptedModel(_script).running() as server:
        bench = _Bench(Path(folder), server, postgres)
        wanted = [bench.whole(play) for play in range(PLAYS)]
        try:
            while Report.total(rounds).kills < kills:
                play = len(rounds) % PLAYS
                rounds.append(bench.round(play, wanted[play], random.Random(f"{seed} {len(rounds)}")))
                if log:
                    with log.open("a") as file:
                        file.write(json.dumps(asdict(rounds[-1])) + "\n")
                if on_round:
                    on_round(Report.total(rounds))
        finally:
            for process in multiprocessing.active_children():
                process.kill()
    return Report.total(rounds)


def _script(request: Request) -> Completion:
    """Replies by thread and call; how long each takes is anybody's guess."""
    return Completion(proper_text(request), delay=random.uniform(0, LONGEST_REPLY))


def _threads(play: int) -> list[tuple[str, str, dict[str, Any]]]:
    """Graph, thread id and settings of each thread of a play."""
    rng = random.Random(f"play {play}")
    return [
        (graph, f"{graph}-{play}-{number}", {"index": INDEX, **rng.choice(VARIANTS.get(graph, [{}]))})
        for graph in GRAPHS
        for number in range(EACH)
    ]


@dataclass
class _Kept:
    """What a checkpoint file holds."""

    results: dict[str, Any]
    """Of the threads that have ended."""
    committed: set[str]
    """Ids of the calls whose replies are kept."""
    open: list[str]
    """Threads that have begun and not ended."""


class _Bench:
    """The model, the index and the environment of all rounds."""

    def __init__(self, folder: Path, server: ScriptedModel, postgres: str | None) -> None:
        self.folder = folder
        self.server = server
        self.place = postgres or str(folder / "checkpoints.sqlite")
        self.environment = {
            "HOPGRAPH_HOME": str(folder / "home"),
            "HOPGRAPH_LLM_URL": server.url,
            "HOPGRAPH_ATTRIBUTION_URL": server.url,
            "HOPGRAPH_CACHE": "off",
        }
        self.settled: set[str] = set()
        self.counted: Counter[str] = Counter()
        self.processes = multiprocessing.get_context("forkserver")
        self.processes.set_forkserver_preload(PRELOADED)
        self._run("build", 0).join()

    def _run(self, what: str, play: int) -> BaseProcess:
        environment = {**self.environment, "HOPGRAPH_CHECKPOINTS": self.place}
        process = self.processes.Process(target=_process, args=(what, play, environment))
        process.start()
        return process

    def _clear(self) -> None:
        if "://" in self.place:
            asyncio.run(_delete_all(self.place))
        for path in self.folder.glob("checkpoints.sqlite*"):
            path.unlink()
        self.server.requests.clear()

    def _kept(self, play: int) -> _Kept:
        return asyncio.run(_kept(play, self.place))

    def whole(self, play: int) -> dict[str, Any]:
        """What a play's threads end with when nothing is killed, and how many calls they make."""
        self._clear()
        self._run("go on", play).join()
        results = self._kept(play).results
        missing = {thread for _, thread, _ in _threads(play)} - set(results)
        if missing:
            raise RuntimeError(f"without a kill there is no result of {', '.join(sorted(missing))}")
        return {"results": results, "calls": len(self.server.requests)}

    def round(self, play: int, wanted: dict[str, Any], rng: random.Random) -> Report:
        """Kill a few times, resume, and compare with the results of the uninterrupted run."""
        self._clear()
        report = Report(rounds=1)
        interrupted: list[str] = []
        for after in sorted(rng.randrange(wanted["calls"]) for _ in range(rng.randint(1, MOST_KILLS))):
            interrupted = self._kill(play, after, rng, report)
        readers = {thread for graph, thread, _ in _threads(play) if graph in READERS}  # the command has none of these
        if threads := [thread for thread in interrupted if thread not in readers]:
            self._resume_by_command(rng.choice(threads), play, report)
        process = self._run("go on", play)
        process.join(timeout=180)
        process.kill()
        results = self._kept(play).results
        report.threads += len(wanted["results"])
        report.calls += len(self.server.requests)
        for thread, whole in wanted["results"].items():
            if thread not in results:
                report.lost.append(thread)
            elif results[thread] != whole:
                report.different.append(thread)
                keep = Path(tempfile.gettempdir()) / f"kills-{os.getpid()}-{thread}.json"
                keep.write_text(json.dumps({"whole": whole, "resumed": results[thread]}, indent=1))
        self._count_again(report)
        return report

    def _resume_by_command(self, thread: str, play: int, report: Report) -> None:
        process = self._run(thread, play)
        process.join(timeout=180)
        process.kill()
        if process.exitcode != 0 or thread not in self._kept(play).results:
            report.lost.append(f"{thread} (hopgraph resume: exit {process.exitcode})")
        report.by_command.append(thread)

    def _kill(self, play: int, after: int, rng: random.Random, report: Report) -> list[str]:
        """Start a process and kill it a random moment after that many calls of the round; what it interrupted."""
        begun = len(self.server.requests)
        process = self._run("go on", play)
        deadline = time.time() + 120
        while len(self.server.requests) < after and process.is_alive() and time.time() < deadline:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 2 * LONGEST_REPLY))
        at = time.time()
        process.kill()
        process.join()
        time.sleep(LONGEST_REPLY + 0.05)  # the replies under way end at the server
        kept = self._kept(play)
        if process.exitcode == -signal.SIGKILL:  # it may have ended before
            report.kills += 1
            report.interrupted += len(kept.open)
        for request in self.server.requests[begun:]:
            if request.id not in kept.committed:
                report.in_flight += 1
                if request.finished and request.ended < at - LATEST_COMMIT:
                    report.late.append(f"{request.id} ({at - request.ended:.1f} s before)")
        if begun:
            self._check_settled(report)
        # What is committed now must never be asked for again.
        self.settled = kept.committed | (self.settled if begun else set())
        self.counted = Counter(r.id for r in self.server.requests if r.id in self.settled)
        return kept.open

    def _count_again(self, report: Report) -> None:
        counts = Counter(request.id for request in self.server.requests)
        report.repeated += sum(count - 1 for count in counts.values())
        self._check_settled(report)

    def _check_settled(self, report: Report) -> None:
        """What was committed at the kill before must not have been asked for since."""
        counts = Counter(request.id for request in self.server.requests)
        report.committed_again += [key for key in self.settled if counts[key] > self.counted[key]]


def _process(what: str, play: int, environment: dict[str, str]) -> None:
    """A process: it builds the index, begins or resumes all threads of a play ("go on"), or resumes one by its id."""
    for name in [name for name in os.environ if name.startswith("HOPGRAPH_")]:
        del os.environ[name]
    os.environ.update(environment)
    get_settings.cache_clear()
    if what == "build":
        build_small()
    elif what == "go on":
        asyncio.run(_go_on(play))
    else:
        with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
            sys.exit(run_app(["resume", what, "--json"]))


async def _go_on(play: int) -> None:
    """Begin or resume all threads of a play, side by side."""
    async with open_checkpoints() as saver, asyncio.TaskGroup() as group:
        for graph, thread, settings in _threads(play):
            group.create_task((_read if graph in READERS else _answer)(graph, thread, settings, saver))


async def _answer(graph: str, thread: str, settings: dict[str, Any], saver: Any) -> None:
    if await saver.aget_tuple({"configurable": {"thread_id": thread}}) is None:
        await ask(QUESTION, make_context(graph, settings), saver, thread=thread)
    else:
        await resume(thread, saver)


async def _read(graph: str, thread: str, settings: dict[str, Any], saver: Any) -> None:
    config: Any = {"configurable": {"thread_id": thread}}
    begun = await saver.aget_tuple(config) is not None
    if begun and not (await load(graph, saver).aget_state(config)).tasks:
        return
    context = context_class(graph).model_validate(settings)
    await load(graph, saver).ainvoke(None if begun else given(graph), config, context=context, durability="sync")


async def _delete_all(place: str) -> None:
    async with open_checkpoints(place) as saver:
        for play in range(PLAYS):
            for _, thread, _ in _threads(play):
                await saver.adelete_thread(thread)


async def committed_calls(saver: Any, thread: str) -> set[str]:
    """Ids of the model calls whose replies are in a thread's checkpoints."""
    return {
        value["call"]["id"]
        async for checkpoint in saver.alist({"configurable": {"thread_id": thread}})
        for _, channel, value in checkpoint.pending_writes or []
        if channel == "__return__" and isinstance(value, dict) and "call" in value
    }


def committed_in(place: str) -> set[str]:
    """Ids of the model calls whose replies are in a checkpoint store."""

    async def read() -> set[str]:
        async with open_checkpoints(place) as saver:
            threads = (await kept_threads(saver, 1_000))[0]
            return set().union(*[await committed_calls(saver, thread.id) for thread in threads])

    return asyncio.run(read())


async def _kept(play: int, place: str) -> _Kept:
    """What the checkpoints of a play hold."""
    kept = _Kept({}, set(), [])
    async with open_checkpoints(place) as saver:
        for graph, thread, _ in _threads(play):
            config: Any = {"configurable": {"thread_id": thread}}
            if await saver.aget_tuple(config) is None:
                continue
            kept.committed |= await committed_calls(saver, thread)
            state = await load(graph, saver).aget_state(config)
            if state.tasks:
                kept.open.append(thread)
            elif graph in READERS:
                kept.results[thread] = {key: state.values.get(key) for key in ("pairs", "dropped", "uncovered")}
            else:
                result: Any = await resume(thread, saver)
                kept.results[thread] = {**result, "cost": {**result["cost"], "seconds": 0}}
    return kept
