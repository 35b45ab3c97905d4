"""The work of a build that can be done anywhere, in any order: sentences, vectors, shards of the dense half."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from inference.encoders.vectors import Encoder, Vectors
from inference.errors import HopgraphError, StoreError
from stores.collect import filled
from stores.manifest import Manifest
from stores.passages import Passage
from stores.records import Records, searchable
from stores.shards import Shards
from stores.vector_store import vector_stores
from stores.vectors import KeptVectors, vector_key

STORED = 512
"""Vectors given to the store at a time."""
APART = 100_000
"""Passages of an index whose shards are each stored by a process of its own: embedded Chroma keeps the memory of what
it has stored."""
_PROCESS = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from stores.workers import main
main(sys.argv[2], int(sys.argv[3]))
"""


class Batch(NamedTuple):
    """Texts to encode."""

    keys: list[bytes]
    """`vector_key` of each text."""
    texts: list[str]


class Workers(Protocol):
    """Whoever does the work: this process, or a cluster. Errors are those of `stores.build.build_index`."""

    def fill_sentences(self, batches: Iterable[list[Passage]]) -> Iterator[list[Passage]]:
        """The passages with their sentences, which some lack, in the same order."""

    def encode(self, batches: Iterable[Batch]) -> Iterator[tuple[list[bytes], Vectors]]:
        """Keys and vectors of the batches, in any order."""

    def store(self, version: Path, manifest: Manifest, on_stored: Callable[[int], None]) -> None:
        """Write the dense half, with `store_shard` for each shard; its further vectors are counted to `on_stored`."""


class InProcess:
    """This process does the work.

    Args:
        encoder: The encoder.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def fill_sentences(self, batches: Iterable[list[Passage]]) -> Iterator[list[Passage]]:
        """See `Workers`."""
        return map(filled, batches)

    def encode(self, batches: Iterable[Batch]) -> Iterator[tuple[list[bytes], Vectors]]:
        """See `Workers`."""
        return ((keys, self._encoder.encode_passages(texts)) for keys, texts in batches)

    def store(self, version: Path, manifest: Manifest, on_stored: Callable[[int], None]) -> None:
        """See `Workers`."""
        apart = manifest.shards > 1 and not manifest.chroma_url and manifest.passages >= APART
        for shard in range(manifest.shards):
            (_store_apart if apart else store_shard)(version, manifest, shard, on_stored)


def store_shard(
    version: Path, manifest: Manifest, shard: int, on_stored: Callable[[int], None], *, into: Path | None = None
) -> None:
    """Write the vectors of a shard, which are all cached, to its store.

    Args:
        version: The version's folder, with all but the dense half.
        manifest: Its manifest.
        shard: The shard, from 0.
        on_stored: Called with the number of further vectors.
        into: Folder in the place of the version's, for an embedded store.
    """
    with (
        contextlib.closing(Records(version / "passages.sqlite")) as records,
        contextlib.closing(KeptVectors(version.parents[1] / "vectors.sqlite", writable=False)) as kept,
    ):
        rows: Sequence[int] = range(records.count)
        if manifest.shards > 1:
            rows = Shards.read(version / "shards.npy", manifest.shards).rows[shard].tolist()

        def vectors() -> Iterator[Vectors]:
            for start in range(0, len(rows), STORED):
                passages = records.at(rows[start : start + STORED]).values()
                yield kept.get([vector_key(manifest.encoder, searchable(passage)) for passage in passages])
                on_stored(len(passages))

        vector_stores(manifest, into or version)[shard].build(vectors())


def _store_apart(version: Path, manifest: Manifest, shard: int, on_stored: Callable[[int], None]) -> None:
    """`store_shard` in a process of its own."""
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", _PROCESS, json.dumps(sys.path), str(version), str(shard)],
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        start_new_session=True,  # ctrl-C reaches this process only, which ends the other
    )
    with process:
        assert process.stdout is not None  # noqa: S101
        try:
            for line in process.stdout:
                told = json.loads(line)
                if "error" in told:
                    raise StoreError(told["error"], hint=told["hint"])
                on_stored(told["stored"])
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise StoreError(
            f"the process that stored shard {shard} of index {manifest.name!r} ended with {process.returncode}",
            hint="run the same command again: finished vectors are kept",
        )


def main(version: str, shard: int) -> None:
    """The process: what is stored, and an error, are lines of JSON on standard output.

    Args:
        version: Folder of the version, with its manifest.
        shard: The shard, from 0.
    """
    told = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints

    def tell(message: dict[str, Any]) -> None:
        print(json.dumps(message), file=told, flush=True)

    try:
        store_shard(Path(version), Manifest.read(Path(version)), shard, lambda count: tell({"stored": count}))
    except HopgraphError as error:
        tell({"error": error.message, "hint": error.hint})
    except BrokenPipeError:  # the process that builds has ended
        os._exit(1)
