"""What indexes there are, how large each is and in what state; deleting one."""

from __future__ import annotations

import contextlib
import shutil
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from inference.errors import StoreError
from inference.locks import claimed, is_locked
from stores.manifest import Manifest, current_version, index_folder, indexes_folder
from stores.vector_store import vector_store

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
    if is_locked(folder / "lock"):
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
    vector_store(manifest, version).drop()


def _claimed(lock: Path, name: str, doing: str) -> AbstractContextManager[None]:
    hint = "wait until that one has ended, or stop it"
    return claimed(lock, StoreError(f"index {name!r} is being {doing} by another process", hint=hint))
