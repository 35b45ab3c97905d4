"""Lists indexes with size and state, and deletes them."""

from __future__ import annotations

import contextlib
import shutil
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from inference.errors import EndpointError, StoreError
from inference.locks import claimed, is_locked
from stores.manifest import Manifest, current_version, index_folder, indexes_folder
from stores.versions import drop_vectors


@dataclass(frozen=True)
class IndexInfo:
    """Facts about an index, read from its folder without opening it."""

    name: str
    state: Literal["complete", "being built", "unfinished", "damaged"]
    passages: int | None
    """None without a readable, complete version."""
    bytes: int
    """Bytes on this disk, including cached vectors and knowledge base, without a Chroma server's data."""
    changed: str
    """Build time, ISO 8601, UTC; for an incomplete index its folder's modification time."""


def index_infos() -> list[IndexInfo]:
    """All indexes, newest first."""
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
        with contextlib.suppress(OSError):  # a concurrent build may remove it
            size += path.stat().st_size if path.is_file() else 0
    return size


def remove_index(name: str) -> None:
    """Delete an index with its vectors (also on a Chroma server) and its knowledge base.

    Raises:
        InputError: The name is invalid.
        StoreError: The index is unknown, or another process builds, reads or searches it; nothing is deleted.
        EndpointError: A Chroma server that holds its vectors can't be reached; its files stay, to try again.
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
            served = None
            with contextlib.suppress(StoreError):
                served = current_version(folder)
            for version in versions:
                with contextlib.nullcontext() if version == served else contextlib.suppress(EndpointError):
                    drop_vectors(version)
            (folder / "current").unlink(missing_ok=True)  # from now on it can't be opened
            shutil.rmtree(folder)
    except OSError as error:
        raise StoreError(f"can't delete the index {name!r}: {error}", hint="is HOPGRAPH_HOME writable?") from error


def _claimed(lock: Path, name: str, doing: str) -> AbstractContextManager[None]:
    hint = "wait until that one has ended, or stop it"
    return claimed(lock, StoreError(f"index {name!r} is being {doing} by another process", hint=hint))
