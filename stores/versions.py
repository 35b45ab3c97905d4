"""Versions of an index on disk: exclusive writing, and pruning."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from inference.errors import EndpointError, InputError, StoreError
from inference.locks import lock
from inference.settings import get_settings
from stores.manifest import Manifest, current_version
from stores.vector_store import vector_stores


@contextlib.contextmanager
def building(folder: Path, name: str) -> Iterator[None]:
    """Lock an index for building. After invalid input, the partial build is deleted: it can't be resumed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("a+", encoding="utf-8") as file:
            _claim(file, name)
            try:
                yield
            except InputError:
                old = current_version(folder)
                if old is None and not (folder / "vectors.sqlite").exists():
                    shutil.rmtree(folder, ignore_errors=True)
                else:
                    prune(folder, old)
                raise
    except (OSError, sqlite3.Error) as error:
        if getattr(error, "errno", None) in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise StoreError(
                f"can't write the index {name!r}: the folder {get_settings().home} can't be written ({error})",
                hint="set HOPGRAPH_HOME to a folder that can be written",
            ) from error
        raise StoreError(
            f"can't write the index {name!r}: {error}", hint="is the disk full, or HOPGRAPH_HOME not writable?"
        ) from error


def _claim(file: IO[str], name: str) -> None:
    held = lock(file)
    file.seek(0)
    if not held:
        raise StoreError(
            f"index {name!r} is being built by another process ({file.read().strip() or 'unknown'})",
            hint="wait until it is done; searching the index meanwhile is fine",
        )
    file.truncate()
    file.write(f"process {os.getpid()}")
    file.flush()


def prune(folder: Path, keep: Path | None) -> None:
    """Remove versions that are neither served nor in use, and remains of killed builds."""
    for version in sorted((folder / "versions").glob("*")):
        if version == keep:
            continue
        with (version / "in_use").open("a") as in_use:
            if lock(in_use):
                _remove(version)


def _remove(version: Path) -> None:
    # A server that is gone must not keep the index from moving to another one.
    with contextlib.suppress(EndpointError):
        drop_vectors(version)
    shutil.rmtree(version)


def drop_vectors(version: Path) -> None:
    """Delete a version's vectors on Chroma servers. Without a manifest, which is written before them, it has none.

    Raises:
        EndpointError: A server can't be reached; those on the others are deleted.
    """
    try:
        stores = vector_stores(Manifest.read(version), version)
    except StoreError:
        return
    failed: EndpointError | None = None
    for store in stores:
        try:
            store.drop()
        except InputError:
            continue  # no address of a server: nothing was written there
        except EndpointError as error:
            failed = failed or error
    if failed is not None:
        raise failed
