"""The work of a build that can be done anywhere, in any order: sentences, vectors, shards of the dense half."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from inference.encoders.vectors import Encoder, Vectors
from stores.collect import filled
from stores.manifest import Manifest
from stores.passages import Passage
from stores.records import Records, searchable
from stores.shards import Shards
from stores.vector_store import vector_stores
from stores.vectors import KeptVectors, vector_key

STORED = 512
"""Vectors given to the store at a time."""


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
        for shard in range(manifest.shards):
            store_shard(version, manifest, shard, on_stored)


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
        rows = list(range(records.count))
        if manifest.shards > 1:
            rows = Shards.read(version / "shards.npy", manifest.shards).rows[shard].tolist()

        def vectors() -> Iterator[Vectors]:
            for start in range(0, len(rows), STORED):
                passages = records.at(rows[start : start + STORED]).values()
                yield kept.get([vector_key(manifest.encoder, searchable(passage)) for passage in passages])
                on_stored(len(passages))

        vector_stores(manifest, into or version)[shard].build(vectors())
