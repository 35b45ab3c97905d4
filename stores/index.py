"""An index opened for search (dense, sparse, both fused, and bridging), over one immutable version of its files."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from inference.encoders.configured import get_encoder
from inference.encoders.vectors import Encoder
from inference.errors import EndpointError, InputError, StoreError, did_you_mean
from inference.locks import lock
from stores.bridging import bridge
from stores.fusion import fuse
from stores.languages import check_language
from stores.links import Links
from stores.manifest import (
    Manifest,
    check_encoder,
    current_version,
    index_again,
    index_command,
    index_folder,
    indexes_folder,
    is_index_name,
)
from stores.passages import Passage
from stores.records import Records
from stores.sharded_vectors import ShardedVectors
from stores.shards import Shards
from stores.sparse import Sparse, tokenizer_of
from stores.vector_store import OpenVectors, vector_stores
from stores.where import fields_of, parse_where

Mode = Literal["hybrid", "dense", "sparse", "bridge"]
"""`bridge` is hybrid, and among its hits the passages that the best of them name."""
MODES = get_args(Mode)
DEFAULT_MODE: Mode = "bridge"

DEPTH = 50
"""Minimum candidates per half for the fusion."""
_FILTERS_KEPT = 16
"""Filters whose rows are kept for the next search."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A retrieved passage, with scores and ranks."""

    id: str
    title: str
    score: float
    """Fused score, in bridge mode one on its scale; in dense or sparse mode the vectors' inner product, or BM25."""
    dense_rank: int | None
    """From 1; None if not among this half's candidates, or if this half was not searched."""
    sparse_rank: int | None
    named_in: str | None = None
    """Id of the passage that names its title, if it is here for that."""
    relevance: float | None = None
    """A reranker's score, if one gave the order (`stores.reranking`)."""

    @property
    def found_by(self) -> Literal["dense", "sparse", "both", "link"]:
        """Which half found it, or a link from another passage."""
        if self.named_in is not None:
            return "link"
        if self.dense_rank is not None and self.sparse_rank is not None:
            return "both"
        return "sparse" if self.dense_rank is None else "dense"


class Index:
    """One version of an index, open for searching. Thread-safe; unaffected by a rebuild in another process."""

    def __init__(self, folder: Path, in_use: IO[str], encoder: Encoder) -> None:
        self._in_use = in_use
        self._folder = folder
        self._encoder = encoder
        self._opening = threading.Lock()
        self._allowed: dict[str, NDArray[np.bool_]] = {}
        self.manifest = Manifest.read(folder)
        check_encoder(self.manifest, encoder.id)
        if self.manifest.tokenizer != (tokenizer := tokenizer_of(check_language(self.manifest.language))):
            raise StoreError(
                f"index {self.name!r} was made with the tokenizer {self.manifest.tokenizer}, this is {tokenizer}",
                hint=f"run `hopgraph index --name {self.name} --rebuild`; vectors are kept",
            )
        self.manifest.check_files(folder)
        self._records = Records(folder / "passages.sqlite")
        if self._records.count != self.manifest.passages:
            raise StoreError(
                f"{folder} holds {self._records.count} passages, its manifest says {self.manifest.passages}",
                hint=index_again(folder),
            )

    @property
    def name(self) -> str:
        """Its name."""
        return self.manifest.name

    @property
    def hash(self) -> str:
        """Hash of the content: equal for equal passages, encoder and tokenizer."""
        return self.manifest.hash

    def __len__(self) -> int:
        return self.manifest.passages

    def __contains__(self, passage_id: object) -> bool:
        return isinstance(passage_id, str) and bool(self._records.named([passage_id]))

    def known(self, ids: Sequence[str]) -> set[str]:
        """The ids that exist, of passages or of articles split into passages."""
        return {*self._records.named(ids), *self._records.sources(ids)}

    def titles(self) -> set[str]:
        """Distinct titles of its passages."""
        return self._records.titles()

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Passages by id, in the order of `ids`.

        Raises:
            StoreError: An id is not in the index.
        """
        found = self._records.named(ids)
        if unknown := [passage_id for passage_id in ids if passage_id not in found]:
            raise StoreError(
                f"index {self.name!r} has no passage {', '.join(map(repr, unknown[:10]))}",
                hint="`hopgraph search` shows ids",
            )
        return [found[passage_id] for passage_id in ids]

    def starts(self, ids: Sequence[str]) -> dict[str, int]:
        """Offset of each passage's first sentence in the article it was split from, from 0."""
        return self._records.starts(ids)

    def passages(self) -> Iterator[list[Passage]]:
        """All passages in indexing order, in chunks of some hundred."""
        return self._records.chunks()

    def search(self, query: str, k: int = 5, mode: Mode = DEFAULT_MODE, where: str | None = None) -> list[Hit]:
        """The top k passages, best first; none for a blank query.

        With `where`, the top k of the passages whose metadata meet that filter (`stores.where`).

        Raises:
            InputError: `k` is below 1, `mode` is unknown, or `where` is malformed or names a field that no passage has.
            EndpointError: The embeddings or Chroma server fails.
            StoreError: The index's files are damaged.
        """
        return self.search_many([query], k, mode, where)[0]

    def search_many(
        self, queries: Sequence[str], k: int = 5, mode: Mode = DEFAULT_MODE, where: str | None = None
    ) -> list[list[Hit]]:
        """Hits of each query, in order; queries are encoded together. Errors as for `search`."""
        if k < 1:
            raise InputError(f"k must be at least 1, got {k}", hint="ask for one passage or more")
        if mode not in MODES:
            raise InputError(f"no search mode {mode!r}", hint=f"use {', '.join(MODES[:-1])} or {MODES[-1]}")
        allowed = self.allowed(where) if where else None
        asked = [i for i, query in enumerate(queries) if query.strip()]
        vectors: list[NDArray[np.float32] | None] = [None] * len(queries)
        if mode != "sparse" and asked:
            for i, vector in zip(asked, self._encoder.encode_queries([queries[i] for i in asked]), strict=True):
                vectors[i] = vector
        found: list[list[Hit]] = [[] for _ in queries]
        for i in asked:
            found[i] = self.search_encoded(queries[i], vectors[i], k, mode, allowed)
        return found

    def allowed(self, where: str) -> NDArray[np.bool_]:
        """Whether the metadata of each row meet a filter, shape (rows,).

        Raises:
            InputError: It is malformed, or names a field that no passage has.
            StoreError: The index was built by a version that kept no metadata.
        """
        parsed = parse_where(where)
        if not self._records.has_metadata:
            raise StoreError(
                f"index {self.name!r} has no metadata, which `where` filters by: an earlier version built it",
                hint=f"index its files again, with `--name {self.name} --replace`: vectors are kept",
            )
        with self._opening:
            if where not in self._allowed:
                known = self.fields
                for name in fields_of(parsed):
                    if name not in known:
                        raise InputError(
                            f"where: no passage of index {self.name!r} has a field {name!r}",
                            hint=did_you_mean(name, known) + f"fields: {', '.join(known) or 'none'}",
                        )
                while len(self._allowed) >= _FILTERS_KEPT:
                    del self._allowed[next(iter(self._allowed))]
                self._allowed[where] = self._records.holding(parsed)
            return self._allowed[where]

    @cached_property
    def fields(self) -> list[str]:
        """Names of the metadata fields of its passages, sorted."""
        return self._records.fields()

    def meeting(self, where: str) -> set[str]:
        """Ids of the passages that meet a filter; errors as for `allowed`."""
        return {found for found, _ in self._records.heads(np.flatnonzero(self.allowed(where)).tolist()).values()}

    def search_encoded(
        self,
        query: str,
        vector: NDArray[np.float32] | None,
        k: int,
        mode: Mode,
        allowed: NDArray[np.bool_] | None = None,
    ) -> list[Hit]:
        """`search` with the query's precomputed vector, shape (dimension,); None in sparse mode."""
        fuses = mode in ("hybrid", "bridge")
        depth = min(max(k, DEPTH) if fuses else k, len(self) if allowed is None else int(allowed.sum()))
        if not depth:
            return []
        dense, dense_scores = self._nearest(vector, depth, allowed) if mode != "sparse" else ([], [])
        sparse, sparse_scores = self._lexical(query, depth, allowed) if mode != "dense" else ([], [])
        named: dict[int, int] = {}
        if mode == "bridge":
            with self._opening:
                links = self._links
            bm25 = dict(zip(sparse, sparse_scores, strict=True))
            found = bridge(query, fuse([dense, sparse]), bm25, self._sparse, links, k, allowed)
            best = [(hit.row, hit.score) for hit in found]
            named = {hit.row: hit.named_in for hit in found if hit.named_in is not None}
        elif fuses:
            best = fuse([dense, sparse])[:k]
        else:
            best = list(zip(dense + sparse, dense_scores + sparse_scores, strict=True))
        dense_ranks = {row: rank for rank, row in enumerate(dense, start=1)}
        sparse_ranks = {row: rank for rank, row in enumerate(sparse, start=1)}
        heads = self._records.heads([*(row for row, _ in best), *named.values()])
        sources = {row: heads[source][0] for row, source in named.items()}
        return [
            Hit(*heads[row], score, dense_ranks.get(row), sparse_ranks.get(row), sources.get(row))
            for row, score in best
        ]

    def _nearest(
        self, vector: NDArray[np.float32] | None, depth: int, allowed: NDArray[np.bool_] | None
    ) -> tuple[list[int], list[float]]:
        if vector is None or vector.shape != (self.manifest.dimension,):
            raise EndpointError(
                f"the encoder gave a vector of shape {None if vector is None else vector.shape}, "
                f"index {self.name!r} has {self.manifest.dimension} dimensions",
                hint="is another model served under the same name?",
            )
        with self._opening:
            dense = self._dense
        rows, scores = dense.search(vector, depth, allowed)
        return rows.tolist(), scores.tolist()

    def _lexical(self, query: str, depth: int, allowed: NDArray[np.bool_] | None) -> tuple[list[int], list[float]]:
        with self._opening:
            sparse = self._sparse
        rows, scores = sparse.search(query, depth, allowed)
        return rows.tolist(), scores.tolist()

    @cached_property
    def _sparse(self) -> Sparse:
        return Sparse(self._folder / "sparse", self.manifest.language)

    @cached_property
    def _shards(self) -> Shards:
        return Shards.read(self._folder / "shards.npy", self.manifest.shards)

    @cached_property
    def _links(self) -> Links:
        folder = self._folder / "links"
        if not folder.is_dir():
            raise StoreError(
                f"index {self.name!r} has no links, which a bridging search follows: an earlier version built it",
                hint=f"run `hopgraph index --name {self.name} --rebuild`; vectors are kept",
            )
        return Links(folder)

    @cached_property
    def _dense(self) -> OpenVectors:
        stores = vector_stores(self.manifest, self._folder)
        parts = [store.open() for store in stores]
        dense = parts[0] if len(parts) == 1 else ShardedVectors(parts, self._shards)
        if len(dense) != len(self):
            raise StoreError(
                f"{stores[0].name} has {len(dense)} vectors for the {len(self)} passages of index {self.name!r}",
                hint=f"run `hopgraph index --name {self.name} --rebuild`; vectors are kept",
            )
        return dense


def reasons(hits: Sequence[Hit]) -> list[str]:
    """Why each hit of one search was found: `found_by`, or the passage that names it, by rank or else by id."""
    ranks = {hit.id: rank for rank, hit in enumerate(hits, start=1)}
    return [
        hit.found_by if hit.named_in is None else f"named in passage {ranks.get(hit.named_in, hit.named_in)}"
        for hit in hits
    ]


_open: dict[Path, Index] = {}
_opening = threading.Lock()


def open_index(name: str) -> Index:
    """The current version of an index; the same object until it is rebuilt.

    Raises:
        InputError: The name is invalid.
        StoreError: The index is unknown, its files are damaged, or it was built with another encoder or tokenizer.
    """
    folder = index_folder(name)
    with _opening:
        # A build may remove the version between reading its name and locking it; then retry with the newer one.
        for _ in range(10):
            version = current_version(folder)
            if version is None:
                raise _unknown(name, folder)
            encoder = get_encoder()
            known = _open.get(version)
            if known is not None:
                check_encoder(known.manifest, encoder.id)
                return known
            if (in_use := _lock(version)) is not None:
                break
        else:
            raise StoreError(f"{version} is missing", hint=index_again(folder))
        try:
            index = Index(version, in_use, encoder)
        except Exception:
            in_use.close()
            raise
        # The garbage collector closes older versions, which other threads may still be searching.
        for other in [path for path in _open if path.parent == version.parent]:
            del _open[other]
        _open[version] = index
        return index


def _lock(version: Path) -> IO[str] | None:
    try:
        in_use = (version / "in_use").open(encoding="utf-8")
    except FileNotFoundError:
        return None
    if lock(in_use, shared=True):
        return in_use
    in_use.close()
    return None


def list_indexes() -> list[str]:
    """Names of all complete indexes, sorted; without folders of other names, such as a person's copy of one."""
    names = (path.parent.name for path in indexes_folder().glob("*/current"))
    return sorted(filter(is_index_name, names))


def _unknown(name: str, folder: Path) -> StoreError:
    if (folder / "vectors.sqlite").exists():
        return StoreError(f"index {name!r} is not finished", hint="run its `hopgraph index` again: it resumes")
    known = list_indexes()
    return StoreError(
        f"no index named {name!r}; known: {', '.join(known) or 'none'}",
        hint=f"make it of your files or folders, such as `{index_command(name)}`",
    )
