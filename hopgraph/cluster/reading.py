"""CompactRAG's reading on a Ray cluster: a task for each part of the passages, one knowledge base."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hopgraph import loop
from hopgraph.cluster.connection import Cluster, set_up, variables_of_workers, worker_count
from hopgraph.cluster.files import Tail, held
from hopgraph.cluster.tasks import RESUME, RETRIES, finish
from hopgraph.evaluation import identity
from hopgraph.evaluation.folder import differences
from hopgraph.knowledge.parts import Part, as_line, open_parts, start_parts, take_line
from hopgraph.knowledge.reading import Outcome, Passages, read_passages
from inference.encoders.vectors import Vectors
from inference.errors import HopgraphError, InputError, StoreError
from inference.locks import claimed
from nodes.compactrag.context import ReaderContext
from stores.index import Index, open_index
from stores.pairs import Pairs
from stores.readings import Pair, Reading


@dataclass(frozen=True)
class _Given:
    """What all parts are given."""

    variables: dict[str, str]
    versions: dict[str, str]
    context: ReaderContext
    index: str
    """Hash of the index."""
    base: str
    """Id of the knowledge base."""


class RayReaders:
    """Reads passages on a cluster; see `hopgraph.knowledge.reading.Readers`.

    Args:
        cluster: The cluster; this process is connected to it.
        workers: Number of parts; default: one per CPU. An unfinished reading keeps its number.
        note: Called with what an operator should know, such as a node that has died.
    """

    def __init__(self, cluster: Cluster, workers: int | None, note: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._workers = workers
        self._note = note

    async def __call__(
        self,
        context: ReaderContext,
        index: Index,
        base: Pairs,
        waiting: Sequence[str],
        on_reading: Callable[[Reading], None],
    ) -> Outcome:
        """Read passages; the base has each as it ends. Errors as for `read_index`."""
        import ray

        if not waiting:
            return Outcome()
        wanted = worker_count(self._cluster, self._workers)
        unfinished = open_parts(index.name)
        parts = start_parts(index.name, max(1, min(wanted, len(waiting))))
        if unfinished and self._workers is not None and len(parts) != wanted:
            self._note(f"--workers: the unfinished reading keeps its {len(parts)} parts")
        asked, outcome = set(waiting), Outcome()
        if retried := asked & base.failed():
            for part in parts:
                part.lines.keep(lambda line: line["reading"]["passage"] not in retried)
        variables = variables_of_workers(min(len(parts), self._cluster.cpus))
        given = ray.put(_Given(variables, identity.versions(), context, index.hash, base.id))
        task = ray.remote(num_cpus=1, max_retries=RETRIES, scheduling_strategy="SPREAD")(read_part)
        own = {part: keys for part in parts if (keys := part.own(waiting))}
        tasks = {task.remote(given, part, keys): f"part {part}" for part, keys in own.items()}
        tails = [Tail(part.path("jsonl")) for part in own]

        def take() -> None:
            for line in [line for tail in tails for line in tail.new()]:
                if line["reading"]["passage"] in asked and (reading := take_line(line, index, base)):
                    asked.remove(reading.passage)
                    outcome.done.append(reading)
                    on_reading(reading)

        for refused in await finish(tasks, take, self._note, RESUME):
            outcome.refused.update(refused)
        return outcome


def read_part(given: _Given, part: Part, keys: Sequence[str]) -> dict[str, str] | HopgraphError:
    """The task: read or resume a part of the passages.

    Returns:
        Passages left unread, with the kind of error; or the error that stopped it, with the node's name.
    """
    import ray

    set_up(given.variables)
    try:
        if changed := differences(given.versions, identity.versions()):
            raise InputError(
                f"has other versions: {'; '.join(changed)}", hint="install the same on all nodes of the cluster"
            )
        if not part.folder.is_dir():
            raise InputError(f"does not see {part.folder}", hint="HOPGRAPH_HOME must be on a disk that all nodes share")
        index = open_index(given.context.index or "")
        if index.hash != given.index:
            raise InputError(f"has another index {index.name!r}", hint="put HOPGRAPH_HOME on a shared disk")
        return loop.run(_read(given, part, keys, index))
    except HopgraphError as error:
        error.message = f"node {ray.util.get_node_ip_address()}: {error.message}"
        return error


async def _read(given: _Given, part: Part, keys: Sequence[str], index: Index) -> dict[str, str]:
    taken = StoreError(f"part {part} is being read by another process", hint=RESUME)
    async with held(lambda: claimed(part.path("lock"), taken)):
        part.lines.keep(lambda line: True)  # without a line that a kill has torn
        done = {line["reading"]["passage"] for line in part.lines}
        with part.lines.appending() as append:

            def keep(reading: Reading, pairs: Sequence[Pair], vectors: Vectors) -> None:
                append(as_line(reading, pairs, vectors))

            waiting = [key for key in keys if key not in done]
            passages = Passages(index, given.base, waiting, part.path("sqlite"), keep)
            outcome = await read_passages(given.context, passages, lambda reading: None)
    return outcome.refused
