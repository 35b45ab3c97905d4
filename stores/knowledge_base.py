"""Opens the knowledge base of an index, for searching or writing."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from inference.errors import StoreError
from inference.locks import claimed
from stores.index import Index
from stores.manifest import index_folder
from stores.pairs import Pairs

_open: dict[Path, tuple[int, Pairs]] = {}
_opening = threading.Lock()


def open_pairs(index: Index) -> Pairs:
    """The knowledge base of an index, complete or not, for searching; one instance per process.

    Raises:
        StoreError: It is missing, belongs to another state of the index, or can't be read.
    """
    path = _path(index.name)
    read = f"`hopgraph read --index {index.name}`"
    with _opening:
        if not path.exists():
            raise StoreError(
                f"index {index.name!r} has no knowledge base of question-answer pairs",
                hint=f"CompactRAG answers from one: make it with {read}",
            )
        file = path.stat().st_ino
        known = _open.get(path)
        if known is None or known[0] != file:  # the file may have been replaced
            known = _open[path] = (file, Pairs(path))
        base = known[1]
    if base.index_hash != index.hash:
        raise StoreError(
            f"the knowledge base of index {index.name!r} was read from another state of it "
            f"({base.index_hash[:12] or 'nothing'}, the index is {index.hash[:12]} now)",
            hint=f"run {read}: passages that are still the same are not read again",
        )
    return base


@contextlib.contextmanager
def writing(index: Index) -> Iterator[Pairs]:
    """The knowledge base of an index for exclusive writing; created if missing.

    Raises:
        StoreError: Another process is reading this index, or the file can't be used.
    """
    path = _path(index.name)
    taken = StoreError(
        f"index {index.name!r} is being read by another process",
        hint="wait until it is done; questions can be asked meanwhile",
    )
    with claimed(path.parent / "pairs.lock", taken), contextlib.closing(Pairs(path)) as base:
        yield base


def _path(name: str) -> Path:
    return index_folder(name) / "pairs.sqlite"
