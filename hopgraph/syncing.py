"""Keeps an index equal to files: new, changed and vanished ones are added, replaced and removed in one step."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from hopgraph.reading import Reading, located_by
from hopgraph.sources import Sources, Unread
from inference.encoders.configured import get_encoder
from inference.errors import StoreError
from stores.build import build_index
from stores.collect import Built, Located, Progress
from stores.languages import LANGUAGES
from stores.manifest import Manifest, current_version, index_folder
from stores.readers.isolated import IsolatedParser
from stores.records import PARTLY, Records
from stores.sparse import tokenizer_of

READERS = "2"
"""Version of what the readers make of a file; after a change, every file is read again."""
UNREADABLE = "unreadable:"
"""Before the digest of a file that could not be read."""


@dataclass
class Synced:
    """What a sync did."""

    built: Built
    changed: bool
    """Whether there was anything to do."""
    new: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    """Files whose content has changed, or that have to be read again."""
    vanished: list[str] = field(default_factory=list)
    unchanged: int = 0
    failed: list[Unread] = field(default_factory=list)
    """Files that could not be read. If an earlier version of one is in the index, it stays, as do the files of a folder
    that can't be read."""


class Digests:
    """SHA-256 of files, computed again only after size or times of change differ."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[int, ...], str]] = {}

    def of(self, path: Path) -> str:
        """A file's digest; "" if it can't be read."""
        try:
            stat = path.stat()
            # Copying may keep the time of the content, but not that of the file.
            seen = (stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
            if path not in self._known or self._known[path][0] != seen:
                with path.open("rb") as file:
                    self._known[path] = (seen, f"{READERS}:{hashlib.file_digest(file, 'sha256').hexdigest()}")
        except OSError:
            return ""
        return self._known[path][1]


def sync_index(
    name: str,
    paths: Sequence[Path],
    sources: Sources,
    *,
    digests: Digests | None = None,
    strict: bool = False,
    replace: bool = False,
    progress: Progress | None = None,
    reading: Callable[[Reading], None] | None = None,
) -> Synced:
    """Make an index hold the passages of files and no others: the index that building it of them would give.

    Unchanged files are not read again: their passages are taken from the index.

    Args:
        name: The index; it is made if there is none.
        paths: The files and folders given.
        sources: The files found there.
        digests: Digests known from an earlier sync.
        strict: Raise for a file that can't be read.
        replace: Also remove passages of files outside `paths`.
        progress: Called with the build's progress.
        reading: Called with the progress of reading.

    Raises:
        InputError: There would be no passages left; or a file can't be read, and `strict`.
        StoreError: The index has passages of other files and not `replace`; another process is building it; or writing
            fails.
        EndpointError: The embeddings or Chroma server fails.
    """
    started = time.perf_counter()
    digests = digests or Digests()
    found = {str(path): digests.of(path) for path in sources.files}
    before = _Before.read(name)
    within = None if replace else paths
    _check_others(name, before.names, within)
    unread_folders = [Path(folder.file) for folder in sources.failed]
    unseen = {file for file in before.files - found.keys() if _is_below(file, unread_folders)}
    synced = _compared(before, found, unseen)
    unread = [path for path in sources.files if before.content.get(str(path)) == UNREADABLE + found[str(path)]]
    same = not synced.new and not synced.vanished and synced.replaced == [str(path) for path in unread]
    manifest = before.manifest
    if manifest and same and "" not in before.names and _fits(manifest):
        retried = Reading(unread, strict=strict, progress=reading)
        if not any(True for _ in retried.tried()):
            synced.changed, synced.replaced, synced.failed = False, [], retried.failed
            synced.built.manifest = manifest
            synced.built.seconds = time.perf_counter() - started
            return synced
    read = Reading(sources.files, strict=strict, progress=reading)
    synced.built = build_index(name, _passages(name, read, found, unseen, within), progress=progress, files=found)
    synced.failed = read.failed
    failed = {unread.file for unread in read.failed}
    synced.new = [file for file in synced.new if file not in failed]
    synced.replaced = [file for file in synced.replaced if file not in failed]
    return synced


def _check_others(name: str, names: set[str], within: Sequence[Path] | None) -> None:
    """Check that no passages of other files would be removed."""
    others = sorted(file for file in names if within is not None and not _is_below(file, within))
    if others:
        listed = ", ".join(file or "passages without a file" for file in others[:5])
        raise StoreError(
            f"index {name!r} has passages that are not of these files: {listed}",
            hint="name all files and folders that belong to it, spelled as before; --replace removes the others",
        )


def _compared(before: _Before, found: dict[str, str], unseen: set[str]) -> Synced:
    synced, known = Synced(Built(), changed=True), before.files
    for file, digest in found.items():
        if digest and before.content.get(file) == digest:
            synced.unchanged += 1
        elif file in known:
            synced.replaced.append(file)
        else:
            synced.new.append(file)
    synced.vanished = sorted(known - found.keys() - unseen)
    return synced


def _fits(manifest: Manifest) -> bool:
    """Whether building the index now would make the same of its passages."""
    return manifest.language in LANGUAGES and manifest.fits(get_encoder().id, tokenizer_of(manifest.language))


def _passages(
    name: str, reading: Reading, digests: dict[str, str], unseen: set[str], within: Sequence[Path] | None
) -> Iterator[Located]:
    """Passages of all files in order; those of unchanged and unseen files from the index, which is locked meanwhile.

    The digests of files that can't be read are marked, and those of unseen files are added.
    """
    with contextlib.ExitStack() as stack:
        old: Records | None = None
        known: dict[str, str] = {}
        names: set[str] = set()
        # A damaged index is made anew.
        with contextlib.suppress(StoreError):
            if (version := current_version(index_folder(name))) is not None:
                old = stack.enter_context(contextlib.closing(Records(version / "passages.sqlite")))
                known, names = old.files(), old.file_names()
        _check_others(name, names, within)  # another process may have added some meanwhile
        parser = stack.enter_context(IsolatedParser())
        for path in reading.files:
            file = str(path)
            if old is not None and digests[file] and known.get(file) == digests[file]:
                yield from reading.counted(_kept(old, file))
                reading.end_file()
                continue
            failed = len(reading.failed)
            yield from reading.read_file(path, located_by(parser))
            if len(reading.failed) > failed:
                digests[file] = UNREADABLE + digests[file]
                if old is not None and file in names:
                    yield from reading.counted(_kept(old, file))
            elif not digests[file]:
                del digests[file]
        if old is not None:
            for file in sorted(unseen):
                yield from reading.counted(_kept(old, file))
            digests.update((file, known[file]) for file in unseen & known.keys())
    if not reading.passages:
        reading.check()


def _kept(old: Records, file: str) -> Iterator[Located]:
    return (Located(file, passage) for passage in old.of_file(file))


@dataclass
class _Before:
    """What an index holds before it is synced."""

    manifest: Manifest | None = None
    content: dict[str, str] = field(default_factory=dict)
    """Digests of files."""
    names: set[str] = field(default_factory=set)
    """Names of the files of its passages; "" among them if some came from none."""

    @property
    def files(self) -> set[str]:
        """All files that it knows."""
        return (self.names | self.content.keys()) - {""}

    @classmethod
    def read(cls, name: str) -> _Before:
        """Nothing, if there is no index or it is damaged."""
        with contextlib.suppress(StoreError):
            if (version := current_version(index_folder(name))) is not None:
                manifest = Manifest.read(version)
                with contextlib.closing(Records(version / "passages.sqlite")) as records:
                    content = {file: digest.removeprefix(PARTLY) for file, digest in records.files().items()}
                    return cls(manifest, content, records.file_names())
        return cls()


def _is_below(file: str, paths: Sequence[Path]) -> bool:
    """Whether a file is one of these paths, or below one; `../a.md` is not below `.`."""
    above = [path for path in paths if file and PurePath(file).is_relative_to(path)]
    return any(".." not in PurePath(file).relative_to(path).parts for path in above)
