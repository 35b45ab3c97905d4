"""Building an index on a Ray cluster: documents are read, sentences split, passages encoded and shards stored by tasks.

What is finished is committed by the process that builds, in the index's own files: a build that was stopped, on Ray or
not, goes on with every vector that it has. Tasks, not actors: a task of a dead node runs on any other one, whereas an
actor waits for a free CPU. Ray reuses a process for many tasks, and the encoder stays loaded in it.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from hopgraph.cluster.connection import Cluster, NodeWatch, set_up, variables_of_workers
from hopgraph.cluster.tasks import RESUME, RETRIES, result_of
from hopgraph.evaluation import identity
from hopgraph.evaluation.folder import differences
from hopgraph.reading import Locate, read_json_lines, read_source
from hopgraph.sources import Unread, is_json_lines
from inference.encoders.configured import get_encoder
from inference.encoders.vectors import Vectors
from inference.errors import HopgraphError, InputError, StoreError
from stores.collect import Located, filled
from stores.languages import ENGLISH
from stores.manifest import Manifest, index_folder
from stores.passages import Passage
from stores.readers.isolated import IsolatedParser
from stores.sentences import splitting, splitting_language
from stores.vector_store import vector_stores
from stores.workers import Batch, store_shard

QUEUED = 2
"""Tasks submitted for each CPU: one that runs, one that waits."""
T = TypeVar("T")


@dataclass(frozen=True)
class _Place:
    """What a worker needs to know, and checks."""

    variables: dict[str, str]
    versions: dict[str, str]
    encoder: str
    folder: str
    """Folder of the index."""
    language: str = ENGLISH
    """Language whose rules split sentences."""


class RayWorkers:
    """Does the work of a build on a cluster; see `stores.workers.Workers`.

    Args:
        cluster: The cluster; this process is connected to it.
        name: Name of the index.
        note: Called with what an operator should know, such as a node that has died.
    """

    def __init__(self, cluster: Cluster, name: str, note: Callable[[str], None]) -> None:
        folder = index_folder(name).resolve()
        variables = variables_of_workers(cluster.cpus)
        self._place = _Place(variables, identity.versions(), get_encoder().id, str(folder))
        self._at_once = QUEUED * cluster.cpus
        self._note = note
        self._nodes = NodeWatch()

    def reader(self, files: Sequence[Path]) -> Locate:
        """Gives the passages of each file, which are taken in order; JSON Lines are read here, documents by tasks."""
        documents = ((str(path.resolve()), str(path)) for path in files if not is_json_lines(path))
        found = self._map("reading a document", _read_document, documents)

        def read(path: Path) -> Iterator[Located]:
            if is_json_lines(path):
                yield from read_json_lines(path, str(path))
                return
            try:
                passages = next(found)
            except InputError as error:  # of the node, not of the file: there is no next one
                raise StoreError(error.message, hint=error.hint) from None
            if isinstance(passages, Unread):
                raise InputError(passages.reason, hint=passages.hint)
            yield from passages

        return read

    def fill_sentences(self, batches: Iterable[list[Passage]]) -> Iterator[list[Passage]]:
        """See `stores.workers.Workers`."""
        return self._map("splitting sentences", _fill_sentences, batches)

    def encode(self, batches: Iterable[Batch]) -> Iterator[tuple[list[bytes], Vectors]]:
        """See `stores.workers.Workers`."""
        return self._map("encoding", _encode, batches, ordered=False)

    def store(self, version: Path, manifest: Manifest, on_stored: Callable[[int], None]) -> None:
        """See `stores.workers.Workers`."""
        given = ((str(version.resolve()), manifest, shard) for shard in range(manifest.shards))
        for count in self._map("storing a shard", _store_shard, given, ordered=False):
            on_stored(count)
        shutil.rmtree(version / _ATTEMPTS, ignore_errors=True)

    def _map(
        self, name: str, work: Callable[[_Place, Any], T], items: Iterable[Any], *, ordered: bool = True
    ) -> Iterator[T]:
        """Results of tasks, in the order of their items or as they come; a bounded number is under way."""
        import ray

        task = ray.remote(num_cpus=1, max_retries=RETRIES, scheduling_strategy="SPREAD")(_checked)
        place = ray.put(replace(self._place, language=splitting_language()))
        waiting: list[Any] = []

        def take() -> T:
            done = waiting[0] if ordered else ray.wait(waiting, num_returns=1)[0][0]
            waiting.remove(done)
            found: T = result_of(done, name, RESUME)
            for node in self._nodes.died():
                self._note(f"node {node} has died; its work goes on on another one")
            return found

        for item in items:
            waiting.append(task.remote(place, work, item))
            if len(waiting) >= self._at_once:
                yield take()
        while waiting:
            yield take()


_ready: _Place | None = None
"""What this worker was set up for."""


def _checked(place: _Place, work: Callable[[_Place, Any], T], item: Any) -> T | HopgraphError:
    """The task: set the worker up, and work. Returns an error with the node's name."""
    import ray

    global _ready
    try:
        if _ready != place:
            set_up(place.variables)
            if changed := differences(place.versions, identity.versions()):
                raise InputError(
                    f"has other versions: {'; '.join(changed)}", hint="install the same on all nodes of the cluster"
                )
            if (encoder := get_encoder().id) != place.encoder:
                raise InputError(f"encodes with {encoder} instead of {place.encoder}", hint="install the same encoder")
            if not Path(place.folder).is_dir():
                raise InputError(
                    f"does not see {place.folder}", hint="HOPGRAPH_HOME must be on a disk that all nodes share"
                )
            _ready = place
        with splitting(place.language):
            return work(place, item)
    except HopgraphError as error:
        error.message = f"node {ray.util.get_node_ip_address()}: {error.message}"
        return error


def _read_document(place: _Place, given: tuple[str, str]) -> list[Located] | Unread:
    path, name = given
    try:
        with IsolatedParser() as parser:
            return list(read_source(Path(path), name, parser))
    except InputError as error:  # the other documents are read
        return Unread(name, error.message, error.hint)


def _fill_sentences(place: _Place, batch: list[Passage]) -> list[Passage]:
    return filled(batch)


def _encode(place: _Place, batch: Batch) -> tuple[list[bytes], Vectors]:
    return batch.keys, get_encoder().encode_passages(batch.texts)


_ATTEMPTS = "attempts"


def _store_shard(place: _Place, given: tuple[str, Manifest, int]) -> int:
    """Store a shard; returns the number of its vectors.

    Files are written apart and then moved: a node that was given up may still be writing the same shard.
    """
    version, manifest, shard = Path(given[0]), given[1], given[2]
    attempt = version / _ATTEMPTS / uuid.uuid4().hex
    counts: list[int] = []
    vector_stores(manifest, attempt)[shard].drop()  # what another attempt left on a server
    store_shard(version, manifest, shard, counts.append, into=attempt)
    folder = Path("dense") if manifest.shards == 1 else Path("dense", str(shard))
    if (attempt / folder).is_dir():
        (version / folder).parent.mkdir(exist_ok=True)
        try:
            (attempt / folder).rename(version / folder)
        except OSError:
            if not (version / folder).is_dir():  # another attempt was faster
                raise
    shutil.rmtree(attempt, ignore_errors=True)
    return sum(counts)
