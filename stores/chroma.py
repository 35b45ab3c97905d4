"""Vector store on Chroma, embedded in this process or on a server."""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from inference.encoders.vectors import Vectors
from inference.errors import EndpointError, InputError, StoreError
from inference.locks import exclusive

if TYPE_CHECKING:
    from chromadb.api.client import Client

    from stores.ranking import Ranking

COLLECTION = "passages"
BATCH = 5_000
"""Rows per write; Chroma's limit is 5,461."""
FEW, WIDEST = 2_000, 5_000
"""Of a filtered search: rows that Chroma is named, and its longest list of which others are dropped."""
_GRAPH = {"space": "ip", "ef_construction": 200, "max_neighbors": 24, "ef_search": 100}
"""Inner product, equal to the cosine for unit vectors. Wider than Chroma's defaults, which miss one in twenty of the
nearest neighbours."""
_AT_ONCE = {"sync_threshold": 1, "batch_size": 1}
"""Every write reaches the graph's files. Fewer than 1,000 vectors would stay in the log, and every search would write
the graph's files anew."""

_HEADER = struct.Struct("<i4Q")
"""Of `header.bin`: version, start of the vectors, capacity, vectors, bytes of each with its neighbours."""
_LENGTH = 4
"""Bytes of each vector's length, a float32."""


class Chroma:
    """Vectors in embedded Chroma, or in a collection on a Chroma server.

    Args:
        folder: Folder of embedded Chroma's files.
        url: URL of a Chroma server; "" for embedded Chroma.
        collection: Name of the collection on the server.
    """

    name = "Chroma"

    def __init__(self, folder: Path, url: str = "", collection: str = "") -> None:
        self._folder = folder
        self._url = url
        self._collection = collection if url else COLLECTION

    def build(self, batches: Iterable[Vectors]) -> None:
        """Write the vectors; row i is the i-th vector across all batches.

        Raises:
            EndpointError: The Chroma server can't be used.
            StoreError: Chroma fails to write.
        """
        with _failures(self._collection, on_server=bool(self._url)):
            client = _connect(self._url) if self._url else _open(self._folder)
            try:
                collection = client.create_collection(
                    self._collection,
                    embedding_function=None,
                    configuration={"hnsw": _GRAPH | _AT_ONCE},  # type: ignore[arg-type]
                )
                row = 0
                for vectors in batches:
                    for start in range(0, len(vectors), BATCH):
                        part = vectors[start : start + BATCH]
                        collection.add(ids=[str(row + i) for i in range(len(part))], embeddings=part)
                        row += len(part)
            finally:
                client.close()
            if not self._url:
                _clear_unused(self._folder)

    def open(self) -> ChromaVectors:
        """Open the vectors for searching; errors as for `build`."""
        return ChromaVectors(self._folder, self._url, self._collection)

    def drop(self) -> None:
        """Delete the collection on the server, if it exists. Embedded Chroma has none."""
        if not self._url:
            return
        from chromadb.errors import NotFoundError

        with _failures(self._collection, on_server=True):
            client = _connect(self._url)
            try:
                client.delete_collection(self._collection)
            except NotFoundError:
                pass
            finally:
                client.close()


class ChromaVectors:
    """The vectors of one version of an index, open. Thread-safe.

    Chroma warns against two clients on one folder. It is safe here, because finished folders are never written to; a
    lock file serializes opening, which writes a row to Chroma's bookkeeping. Chroma can't open read-only: a read-only
    folder is copied to a temporary one, deleted with this object or at exit.
    """

    def __init__(self, folder: Path, url: str, collection: str) -> None:
        self._where = f"collection {collection} on {url}" if url else str(folder)
        self._on_server = bool(url)
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        with _failures(self._where, on_server=self._on_server):
            if not url and not _writable(folder):
                self._copy = tempfile.TemporaryDirectory(prefix="hopgraph-", ignore_cleanup_errors=True)
                folder = _copied(folder, Path(self._copy.name))
            self._client = _connect(url) if url else _open(folder)
            self._collection = self._client.get_collection(collection, embedding_function=None)
        # Chroma keeps its files open; the garbage collector knows when the last search is over.
        weakref.finalize(self, self._client.close).atexit = False

    def __len__(self) -> int:
        with _failures(self._where, on_server=self._on_server):
            return int(self._collection.count())

    def search(self, vector: NDArray[np.float32], k: int, allowed: NDArray[np.bool_] | None = None) -> Ranking:
        """The k nearest of the allowed rows and their inner products with the vector, shape (dimension,)."""
        if allowed is None:
            return self._nearest(vector, k)
        among = np.flatnonzero(allowed)
        if len(among) > FEW:
            # Naming that many rows takes longer than dropping the others from a longer list.
            wide = 2 * k * len(allowed) // len(among)
            while wide <= WIDEST:
                rows, scores = self._nearest(vector, min(wide, len(allowed)))
                kept = allowed[rows]
                if int(kept.sum()) >= k:
                    return rows[kept][:k], scores[kept][:k]
                wide *= 4
        return self._nearest(vector, k, [str(row) for row in among.tolist()])

    def _nearest(self, vector: NDArray[np.float32], k: int, ids: list[str] | None = None) -> Ranking:
        with _failures(self._where, on_server=self._on_server):
            found = self._collection.query(query_embeddings=vector[None], n_results=k, ids=ids, include=["distances"])
        rows = np.array(found["ids"][0], dtype=np.int64)
        scores = 1.0 - np.array((found["distances"] or [[]])[0], dtype=np.float32)
        order = np.lexsort((rows, -scores))
        return rows[order], scores[order]


def _clear_unused(folder: Path) -> None:
    """Set to zero what no vector uses in the files of Chroma's graphs.

    Chroma writes them at full capacity, from memory that it never cleared (chroma-core/chroma issue 7688): whatever the
    process had there before, requests and their API keys among it.
    """
    for path in folder.glob("*/header.bin"):
        version, _, _, used, size = _HEADER.unpack_from(path.read_bytes())
        for name, each in (("data_level0.bin", size), ("length.bin", _LENGTH)):
            file = path.with_name(name)
            whole = file.stat().st_size
            if version != 1 or whole < used * each:
                raise StoreError(f"{file}: this release of chromadb writes a format that is not known")
            os.truncate(file, used * each)
            os.truncate(file, whole)


def _writable(folder: Path) -> bool:
    """Whether Chroma can open a finished folder; `_open` reports a missing one."""
    needed = [folder.parent, folder, *folder.glob("*.sqlite3"), *folder.parent.glob(f"{folder.name}.lock")]
    return not folder.is_dir() or all(os.access(path, os.W_OK) for path in needed)


def _copied(folder: Path, place: Path) -> Path:
    copy = place / folder.name
    # Without modes: those of a read-only folder would make the copy read-only.
    for path in folder.rglob("*"):
        if path.is_file():
            target = copy / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    return copy


def _open(folder: Path) -> Client:
    import chromadb
    from chromadb.config import Settings

    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder.parent / f"{folder.name}.lock"):
        client = chromadb.PersistentClient(path=str(folder), settings=Settings(anonymized_telemetry=False))
    return cast("Client", client)


def _connect(url: str) -> Client:
    from urllib.parse import urlsplit

    import chromadb
    from chromadb.config import Settings

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"HOPGRAPH_CHROMA_URL: not an http(s) URL: {url!r}", hint="for example http://127.0.0.1:8100")
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    settings = Settings(anonymized_telemetry=False)
    return cast("Client", chromadb.HttpClient(host=parts.hostname, port=port, ssl=secure, settings=settings))


@contextmanager
def _failures(where: str, *, on_server: bool) -> Iterator[None]:
    """Convert Chroma's errors, which have many types."""
    import httpx
    from chromadb.errors import ChromaError

    above = Path(where).parts  # indexes/INDEX/versions/VERSION/dense, or a shard below it
    name = above[above.index("versions") - 1] if "versions" in above else "NAME"
    hint = f"run `hopgraph index --name {name} --rebuild`"
    try:
        yield
    except (ChromaError, httpx.HTTPError, ValueError, OSError) as error:
        said = str(error) or type(error).__name__
        if on_server:
            raise EndpointError(
                f"the Chroma server failed on {where}: {said}",
                hint=f"is HOPGRAPH_CHROMA_URL right, and is the server running? If its data is gone, {hint}",
            ) from error
        raise StoreError(f"the vectors in {where} can't be used: {said}", hint=hint) from error
