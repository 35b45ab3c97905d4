"""What indexes there are, how large each is and in what state; deleting one."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from inference.errors import StoreError
from stores.dense import Dense
from stores.manifest import Manifest, current_version, index_folder, indexes_folder

__all__ = ["IndexInfo", "index_infos", "remove_index"]


@dataclass(frozen=True)
class IndexInfo:
    """An index as its folder shows it; nothing is opened for searching."""

    name: str
    state: Literal["complete", "being built", "unfinished", "damaged"]
    passages: int | None
    """None where no finished version can be read."""
    bytes: int
    """On this disk, with the vectors kept and the knowledge base; what a Chroma server holds is not counted."""
    changed: str
    """When it was built, ISO 8601, UTC; of one that is not complete, when its folder last changed."""


def index_infos() -> list[IndexInfo]:
    """All indexes, the newest first."""
    folders = [folder for folder in indexes_folder().glob("*") if folder.is_dir()]
    return sorted(map(_info, folders), key=lambda info: (info.changed, info.name), reverse=True)


def _info(folder: Path) -> IndexInfo:
    manifest: Manifest | None = None
    state: Literal["complete", "being built", "unfinished", "damaged"] = "unfinished"
    try:
        if (version := current_version(folder)) is not None:
            manifest = Manifest.read(version)
            manifest.check_files(version)
            state = "complete"
    except StoreError:
        state = "damaged"
    if _held(folder / "lock"):
        state = "being built"
    changed = datetime.fromtimestamp(folder.stat().st_mtime, UTC).isoformat(timespec="seconds")
    passages = manifest.passages if manifest else None
    return IndexInfo(folder.name, state, passages, _size(folder), manifest.created if manifest else changed)


def _size(folder: Path) -> int:
    size = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # a build may be removing it
            size += path.stat().st_size if path.is_file() else 0
    return size


def _held(lock: Path) -> bool:
    """Whether another process holds a lock; nothing is written."""
    try:
        with lock.open(encoding="utf-8") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def remove_index(name: str) -> None:
    """Delete an index with its vectors and its knowledge base, on a Chroma server, too.

    Raises:
        InputError: The name is none.
        StoreError: There is no such index, or another process builds, reads or searches it; nothing is deleted then.
        EndpointError: The Chroma server that holds its vectors can't be reached; nothing is deleted then.
    """
    folder = index_folder(name)
    if not folder.is_dir():
        known = ", ".join(info.name for info in index_infos()) or "none"
        raise StoreError(f"no index named {name!r}; known: {known}", hint="`hopgraph list indexes` shows them")
    try:
        with contextlib.ExitStack() as locks:
            locks.enter_context(_claimed(folder / "lock", name, "built"))
            locks.enter_context(_claimed(folder / "pairs.lock", name, "read into a knowledge base"))
            versions = sorted((folder / "versions").glob("*"))
            for version in versions:
                locks.enter_context(_claimed(version / "in_use", name, "searched"))
            for version in versions:
                _drop(version)
            (folder / "current").unlink(missing_ok=True)  # from here on nobody opens it
            shutil.rmtree(folder)
    except OSError as error:
        raise StoreError(f"can't delete the index {name!r}: {error}", hint="is HOPGRAPH_HOME writable?") from error


def _drop(version: Path) -> None:
    try:
        manifest = Manifest.read(version)
    except StoreError:  # of a killed build: it names no collection
        return
    if manifest.chroma_url:
        Dense.drop((manifest.chroma_url, manifest.collection))


@contextlib.contextmanager
def _claimed(lock: Path, name: str, doing: str) -> Iterator[None]:
    with lock.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(
                f"index {name!r} is being {doing} by another process", hint="wait until that one has ended, or stop it"
            ) from None
        yield
