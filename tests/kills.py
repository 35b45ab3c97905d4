"""Kills a process that runs all methods side by side, at random moments, and has another one go on.

A round is a process with two threads of every graph, killed with SIGKILL once or twice and then left to end. Every
round has a checkpoint file of its own; the threads, and with them the model's replies, are those of a few uninterrupted
runs, so what a round ends with can be compared with what it should.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from hopgraph.methods import READERS, context_class, load
from hopgraph.run import ask, make_context, resume
from inference.settings import get_settings
from stores.checkpoints import open_checkpoints
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
LATEST_COMMIT = 2.0
"""Seconds in which an answered call is on disk, unless the machine is starved."""
PRELOADED = ["hopgraph.run", "aiohttp", "chromadb", "bm25s", "spacy", "onnxruntime", "tests.small"]


@dataclass
class Report:
    """What came of it."""

    kills: int = 0
    threads: int = 0
    interrupted: int = 0
    """Threads that had begun and not ended when their process was killed."""
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

    @property
    def problems(self) -> list[str]:
        """All that must not be."""
        return [
            *(f"made again although committed: {key}" for key in self.committed_again),
            *(f"lost: {key}" for key in self.lost),
            *(f"another result: {key}" for key in self.different),
        ]


def kill_at_random(kills: int, seed: int = 0, on_round: Callable[[Report], None] | None = None) -> Report:
    """Kill that many processes; see the module.

    Args:
        kills: How many.
        seed: Of the moments.
        on_round: Called with the report so far after every round.
    """
    rng = random.Random(seed)
    report = Report()
    with tempfile.TemporaryDirectory() as folder, ScriptedModel(_script).running() as server:
        bench = _Bench(Path(folder), server)
        wanted = [bench.whole(play) for play in range(PLAYS)]
        try:
            while report.kills < kills:
                play = report.threads // (EACH * len(GRAPHS)) % PLAYS
                bench.round(play, wanted[play], rng, report, kills)
                if on_round:
                    on_round(report)
        finally:
            for process in multiprocessing.active_children():
                process.kill()
    return report


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
    open: int
    """Threads that have begun and not ended."""


class _Bench:
    """The model, the index and the environment of all rounds."""

    def __init__(self, folder: Path, server: ScriptedModel) -> None:
        self.folder = folder
        self.server = server
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
        environment = {**self.environment, "HOPGRAPH_CHECKPOINTS": str(self.folder / "checkpoints.sqlite")}
        process = self.processes.Process(target=_process, args=(what, play, environment))
        process.start()
        return process

    def _clear(self) -> None:
        for path in self.folder.glob("checkpoints.sqlite*"):
            path.unlink()
        self.server.requests.clear()

    def _kept(self, play: int) -> _Kept:
        return asyncio.run(_kept(play, str(self.folder / "checkpoints.sqlite")))

    def whole(self, play: int) -> dict[str, Any]:
        """What a play's threads end with when nothing is killed, and how many calls they make."""
        self._clear()
        self._run("go on", play).join()
        results = self._kept(play).results
        missing = {thread for _, thread, _ in _threads(play)} - set(results)
        if missing:
            raise RuntimeError(f"without a kill there is no result of {', '.join(sorted(missing))}")
        return {"results": results, "calls": len(self.server.requests)}

    def round(self, play: int, wanted: dict[str, Any], rng: random.Random, report: Report, most: int) -> None:
        """Kill once or twice, let it end, and compare."""
        self._clear()
        again = rng.random() < 0.3 and report.kills + 1 < most
        for _ in range(2 if again else 1):
            self._kill(play, wanted["calls"], rng, report)
        process = self._run("go on", play)
        process.join(timeout=180)
        process.kill()
        results = self._kept(play).results
        report.threads += len(wanted["results"])
        report.calls += len(self.server.requests)
        for thread, whole in wanted["results"].items():
            name = f"{thread} (kill {report.kills})"
            if thread not in results:
                report.lost.append(name)
            elif results[thread] != whole:
                report.different.append(name)
                keep = Path(tempfile.gettempdir()) / f"kill-{report.kills}-{thread}.json"
                keep.write_text(json.dumps({"whole": whole, "resumed": results[thread]}, indent=1))
        self._count_again(report)

    def _kill(self, play: int, calls: int, rng: random.Random, report: Report) -> None:
        """Start a process and kill it after a random number of calls and a random moment more."""
        begun = len(self.server.requests)
        after = begun + rng.randrange(max(1, calls - begun))
        process = self._run("go on", play)
        deadline = time.time() + 120
        while len(self.server.requests) < after and process.is_alive() and time.time() < deadline:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 2 * LONGEST_REPLY))
        at = time.time()
        process.kill()
        process.join()
        time.sleep(LONGEST_REPLY + 0.05)  # what is under way at the server ends there
        report.kills += 1
        kept = self._kept(play)
        report.interrupted += kept.open
        for request in self.server.requests:
            if request.id not in kept.committed:
                report.in_flight += 1
                if request.finished and request.ended < at - LATEST_COMMIT:
                    report.late.append(f"{request.id} (kill {report.kills}, {at - request.ended:.1f} s before)")
        if begun:
            self._check_settled(report)
        # What is committed now must not be asked for again, ever.
        self.settled = kept.committed | (self.settled if begun else set())
        self.counted = Counter(r.id for r in self.server.requests if r.id in self.settled)

    def _count_again(self, report: Report) -> None:
        counts = Counter(request.id for request in self.server.requests)
        report.repeated += sum(count - 1 for count in counts.values())
        self._check_settled(report)

    def _check_settled(self, report: Report) -> None:
        """What was committed at the kill before must not have been asked for since."""
        counts = Counter(request.id for request in self.server.requests)
        report.committed_again += [key for key in self.settled if counts[key] > self.counted[key]]


def _process(what: str, play: int, environment: dict[str, str]) -> None:
    """What a process does."""
    for name in [name for name in os.environ if name.startswith("HOPGRAPH_")]:
        del os.environ[name]
    os.environ.update(environment)
    get_settings.cache_clear()
    if what == "build":
        build_small()
    else:
        asyncio.run(_go_on(play))


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


async def _kept(play: int, place: str) -> _Kept:
    """What the checkpoints of a play hold."""
    kept = _Kept({}, set(), 0)
    async with open_checkpoints(place) as saver:
        for graph, thread, _ in _threads(play):
            config: Any = {"configurable": {"thread_id": thread}}
            if await saver.aget_tuple(config) is None:
                continue
            async for checkpoint in saver.alist(config):
                for _, channel, value in checkpoint.pending_writes or []:
                    if channel == "__return__" and isinstance(value, dict) and "call" in value:
                        kept.committed.add(value["call"]["id"])
            state = await load(graph, saver).aget_state(config)
            if state.tasks:
                kept.open += 1
            elif graph in READERS:
                kept.results[thread] = {key: state.values.get(key) for key in ("pairs", "dropped", "uncovered")}
            else:
                result: Any = await resume(thread, saver)
                kept.results[thread] = {**result, "cost": {**result["cost"], "seconds": 0}}
    return kept
