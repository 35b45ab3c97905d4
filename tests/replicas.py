"""Two real servers on one Postgres; one is killed in the middle of its chats, and the other one is asked to go on."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import aiohttp

from hopgraph.methods import METHODS
from stores.checkpoints import open_checkpoints
from tests.kills import committed_calls
from tests.replies import proper_text
from tests.scripted import Completion, Request, ScriptedModel
from tests.small import INDEX, QUESTION

LONGEST_REPLY = 0.2
"""Seconds that the model takes for a reply at most."""
SETTLING = 0.5
"""Seconds after the kill in which Postgres commits what it has received."""


@dataclass
class Outcome:
    """What came of the chats."""

    chats: int
    """Of the replica that was killed."""
    cut: int = 0
    """Of these: unfinished at the kill."""
    calls: int = 0
    in_flight: int = 0
    """Calls that were under way, or answered and not yet committed, at the kill."""
    repeated: int = 0
    """Calls made again, all in all."""
    committed_again: list[str] = field(default_factory=list)
    """Of these: committed before the kill."""
    lost: list[str] = field(default_factory=list)
    """Chats without an answer in the end."""
    miscounted: list[str] = field(default_factory=list)
    """Chats whose cost does not have every call exactly once."""

    @property
    def problems(self) -> list[str]:
        """All that must not be."""
        return [
            *(f"made again although committed: {key}" for key in self.committed_again),
            *(f"no answer: {key}" for key in self.lost),
            *(f"miscounted: {key}" for key in self.miscounted),
        ]


def script(request: Request) -> Completion:
    """Replies by thread and call; how long each takes is anybody's guess."""
    return Completion(proper_text(request), delay=random.uniform(LONGEST_REPLY / 4, LONGEST_REPLY))


@contextmanager
def serving(home: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """`hopgraph serve`, which is starting."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HOPGRAPH_")}
    process = subprocess.Popen(
        [sys.executable, "-c", "from hopgraph.cli import main; main()", "serve", "--port", "0", "--index", INDEX],
        env=clean | {"HOPGRAPH_HOME": str(home)} | environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def address(process: subprocess.Popen[str]) -> str:
    """Wait until a server is up; its address.

    Raises:
        RuntimeError: It has not started.
    """
    assert process.stdout
    line = process.stdout.readline()
    if not line.startswith("serving"):
        raise RuntimeError(f"hopgraph serve did not start: {line}")
    return line.split(" at ")[1].split()[0]


def kill_a_replica(home: Path, postgres: str, chats: int) -> Outcome:
    """Ask two replicas, kill the first one with SIGKILL, and ask the second one the same on the same threads.

    Args:
        home: HOPGRAPH_HOME, with the index of `tests.small`.
        postgres: URL of the store of checkpoints; its threads must be new.
        chats: Chats of each replica, all at a time, over all methods.
    """
    with ScriptedModel(script).running() as model:
        environment = {"HOPGRAPH_LLM_URL": model.url, "HOPGRAPH_CHECKPOINTS": postgres, "HOPGRAPH_CACHE": "off"}
        with serving(home, environment) as first, serving(home, environment) as second:
            return asyncio.run(ask_and_kill(first.kill, [address(first), address(second)], postgres, model, chats))


async def ask_and_kill(
    kill: Callable[[], None], urls: list[str], postgres: str, model: ScriptedModel, chats: int, key: str = "unused"
) -> Outcome:
    """Ask at all addresses, kill, and ask at the last one what was asked at the first one.

    Args:
        kill: Ends a replica by SIGKILL.
        urls: The addresses of two replicas, of which the first one is killed; or the one address of their balancer.
        postgres: As for `kill_a_replica`.
        model: The model of all replicas, with `script`.
        chats: As for `kill_a_replica`.
        key: API key.
    """
    rows = [(f"replica-{number}", method) for number, method in zip(range(chats), cycle(METHODS), strict=False)]
    outcome, begun = Outcome(chats), len(model.requests)
    async with _client(key) as client:
        doomed = [asyncio.create_task(_chat(client, urls[0], *row)) for row in rows]
        others = [
            asyncio.create_task(_chat(client, url, f"other-{name}", method))
            for url in urls[1:]
            for name, method in rows
        ]
        async with asyncio.timeout(600):
            while sum(row.id.startswith("replica-") for row in model.requests) < 2 * chats:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        kill()
        ended = await asyncio.gather(*doomed, return_exceptions=True)
        await asyncio.sleep(LONGEST_REPLY + SETTLING)
        outcome.cut = sum(isinstance(row, BaseException) for row in ended)
        async with open_checkpoints(postgres) as saver:
            committed = set().union(*[await committed_calls(saver, name) for name, _ in rows])
        before = Counter(row.id for row in model.requests if row.id.startswith("replica-"))
        outcome.in_flight = len(before.keys() - committed)
        answers = await asyncio.gather(*(_chat(client, urls[-1], *row) for row in rows))
        await asyncio.gather(*others)
    after = Counter(row.id for row in model.requests[begun:])
    outcome.calls = sum(after.values())
    outcome.repeated = sum(count - 1 for count in after.values())
    outcome.committed_again = sorted(key for key in committed if after[key] > before[key])
    for (name, method), answer in zip(rows, answers, strict=True):
        asked = sum(key.startswith(f"{name}.") for key in after)
        if answer.get("status") not in ("answered", "unanswerable"):
            outcome.lost.append(f"{name} ({method}): {answer}")
        elif answer["cost"]["calls"] != asked:
            outcome.miscounted.append(f"{name} ({method}): {answer['cost']['calls']} of {asked}")
    return outcome


@asynccontextmanager
async def _client(key: str) -> AsyncIterator[aiohttp.ClientSession]:
    connector, headers = aiohttp.TCPConnector(limit=0), {"authorization": f"Bearer {key}"}
    async with aiohttp.ClientSession(
        connector=connector, timeout=aiohttp.ClientTimeout(600), headers=headers
    ) as client:
        yield client


async def _chat(client: aiohttp.ClientSession, url: str, thread: str, method: str) -> Any:
    """A chat's structured answer, or its error."""
    body = {"model": method, "messages": [{"role": "user", "content": QUESTION}]}
    headers = {"x-hopgraph-thread": thread}
    async with client.post(f"{url}/chat/completions", json=body, headers=headers) as response:
        answer = await response.json()
    return answer.get("hopgraph", answer)
