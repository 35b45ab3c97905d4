"""A Ray cluster of three nodes on this machine, and the small evaluation of tests/hopgraph/evaluation."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from inference.errors import StoreError
from stores.checkpoints import kept_threads, open_checkpoints
from tests.hopgraph.evaluation.conftest import hopgraph, questions  # noqa: F401
from tests.kills import committed_calls


@pytest.fixture(scope="package")
def three_nodes():
    """One cluster for all tests, since starting it takes most of their time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_agent_register_timeout_ms", "300000")  # a busy machine starts three nodes slowly
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_worker_niceness", "0")  # by default, everything else on a busy machine comes first
        started = start_cluster(1, 1, 1)
        yield started
        started.shutdown()


def start_cluster(*cpus: int, attempts: int = 5):
    """Start a node for each number of CPUs. Its agents get fifteen seconds, too few on a busy machine."""
    from ray.cluster_utils import Cluster

    made = Cluster()
    try:
        made.add_node(num_cpus=cpus[0], include_dashboard=False)
        for count in cpus[1:]:
            made.add_node(num_cpus=count)
    except Exception:
        made.shutdown()
        if attempts == 1:
            raise
        return start_cluster(*cpus, attempts=attempts - 1)
    return made


@pytest.fixture
def cluster(three_nodes):
    """Three nodes with a CPU each; those that an earlier test killed are replaced."""
    while len(three_nodes.worker_nodes) < 2:
        three_nodes.add_node(num_cpus=1)
    three_nodes.wait_for_nodes(timeout=300)  # until the killed ones are known to be dead
    return three_nodes


def until(condition: Callable[[], object], seconds: float = 300.0) -> None:
    """Wait until something is so; without a thread that waits for ever where it never is."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def committed(places: Iterable[Path]) -> set[str]:
    """Ids of the model calls whose replies are in these checkpoint stores, which others may be writing."""

    async def read() -> set[str]:
        found: set[str] = set()
        for place in places:
            with suppress(StoreError):  # it is being made
                async with open_checkpoints(str(place), read_only=True) as saver:
                    for thread in (await kept_threads(saver, 1_000))[0]:
                        found |= await committed_calls(saver, thread.id)
        return found

    return asyncio.run(read())


def kill_node(cluster) -> None:
    """End a node and its workers by SIGKILL."""
    node = next(iter(cluster.worker_nodes))
    for pid in (raylet(node), *workers(node)):
        os.kill(pid, signal.SIGKILL)
    cluster.worker_nodes.remove(node)


def raylet(node) -> int:
    """Process id of a node's raylet, the parent of its workers."""
    return node.all_processes["raylet"][0].process.pid


def workers(node) -> list[int]:
    """Process ids of a node's workers."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == raylet(node):
            found.append(int(path.parent.name))
    return found
