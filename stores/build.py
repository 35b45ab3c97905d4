"""Building indexes: new, extended, reduced, encoded anew. What is being served changes only when all is written."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import IO, Literal, NamedTuple, TypeVar

from inference.encoders.configured import get_encoder
from inference.encoders.vectors import Encoder, Vectors
from inference.errors import InputError, StoreError
from inference.settings import get_settings
from stores.dense import Dense
from stores.manifest import (
    Manifest,
    check_encoder,
    current_version,
    file_sizes,
    index_command,
    index_folder,
    set_current,
)
from stores.passages import Passage
from stores.records import UNORDERED, Records, searchable
from stores.sparse import SPARSE, Sparse
from stores.vectors import KeptVectors, vector_key

__all__ = ["Built", "Located", "Progress", "add_to_index", "build_index", "rebuild_index", "remove_from_index"]

BATCH = 256
"""Passages encoded between two savings: what a kill can lose."""
READ_BATCH = 512

T = TypeVar("T")
Progress = Callable[[Literal["read", "encode", "store"], int, int | None], None]
"""Called with the stage, how many passages it has done, and of how many (None: not known yet)."""


class Located(NamedTuple):
    """A passage and where it came from, for reports: `corpus.jsonl, line 12`."""

    where: str
    passage: Passage


@dataclass
class Built:
    """What a build did."""

    manifest: Manifest = field(init=False)
    read: int = 0
    """Passages given, before long ones were cut."""
    duplicates: list[str] = field(default_factory=list)
    """Where an id came a second time; the first passage of an id is kept."""
    empties: list[str] = field(default_factory=list)
    """Where a passage had no text; those are left out."""
    replaced: int = 0
    """Passages or articles that were in the index and have been given again."""
    replaces: int = 0
    """Passages of the index that a new one takes the place of."""
    removed: int = 0
    """Passages that were in the index and are not any more."""
    encoded: int = 0
    """Passages encoded now; the others' vectors were known."""
    seconds: float = 0.0
    size: int = 0
    """Bytes on disk of what is served."""


def build_index(
    name: str,
    passages: Iterable[Passage | Located],
    *,
    encoder: Encoder | None = None,
    progress: Progress | None = None,
    confirm: Callable[[Built], None] | None = None,
) -> Built:
    """Make an index, or replace all passages of the one there is.

    Passages of more than 300 words are cut at sentence borders; missing sentences are filled in. A build that was
    killed goes on when it is started again: vectors that were finished are kept by content.

    Args:
        name: Letters, digits, '-', '_' and '.'.
        passages: At least one with a text.
        encoder: Instead of the one the settings name.
        progress: Called as the work goes on.
        confirm: Called when all passages are read, before an index of other content is replaced; `replaces` and
            `removed` say what is there. An error that it raises leaves the index as it is.

    Raises:
        InputError: The name is none, or there are no passages.
        StoreError: Another process is building this index, or the disk refuses.
        EndpointError: The embeddings or Chroma server fails.
    """
    return _build(name, passages, (), encoder, progress, base="nothing", confirm=confirm)


def add_to_index(
    name: str,
    passages: Iterable[Passage | Located],
    *,
    encoder: Encoder | None = None,
    progress: Progress | None = None,
) -> Built:
    """Add passages to an index; one whose id (or article's id) is there already takes its place, row by row.

    What has not changed keeps its rows, so that adding it again changes neither the index's hash nor any search.
    Errors as for `build_index`; StoreError if there is no such index.
    """
    return _build(name, passages, (), encoder, progress, base="this encoder's")


def remove_from_index(
    name: str, ids: Sequence[str], *, encoder: Encoder | None = None, progress: Progress | None = None
) -> Built:
    """Remove passages by id, all passages of an article by the article's id, or all that were read from a file.

    Errors as for `build_index`; StoreError also for an unknown id, and then nothing is removed.
    """
    return _build(name, (), ids, encoder, progress, base="this encoder's")


def rebuild_index(name: str, *, encoder: Encoder | None = None, progress: Progress | None = None) -> Built:
    """Build an index anew from its own passages: after the encoder changed, or when its files are damaged.

    Errors as for `build_index`; StoreError if there is no such index or its passages can't be read.
    """
    return _build(name, (), (), encoder, progress, base="any encoder's")


def _build(
    name: str,
    passages: Iterable[Passage | Located],
    remove: Sequence[str],
    encoder: Encoder | None,
    progress: Progress | None,
    *,
    base: Literal["nothing", "any encoder's", "this encoder's"],
    confirm: Callable[[Built], None] | None = None,
) -> Built:
    started = time.perf_counter()
    tell: Progress = progress or (lambda stage, done, total: None)
    folder = index_folder(name)
    if base != "nothing" and current_version(folder) is None:
        adds = base == "this encoder's" and not remove
        hint = "the same without --add makes it" if adds else f"make it first, such as `{index_command(name)}`"
        raise StoreError(f"no index named {name!r}", hint=hint)
    encoder = encoder or get_encoder()
    result = Built()
    with _builder(folder, name):
        old = current_version(folder)
        if old is not None and base == "this encoder's":
            check_encoder(Manifest.read(old), encoder.id)
        _prune(folder, old)
        made = datetime.now(UTC)
        version = f"{made:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
        new = folder / "versions" / version
        new.mkdir(parents=True)
        (new / "in_use").touch()
        with contextlib.closing(Records(new / "passages.sqlite", writable=True)) as records:
            _collect(records, passages, None if base == "nothing" else old, remove, result, tell)
            if base == "nothing" and old is not None:
                _compare(old, records, result)
            content = _content_hash(old, records)
            if confirm is not None and result.replaces and not content.known:
                confirm(result)
            with contextlib.closing(KeptVectors(folder / "vectors.sqlite")) as kept:
                dimension = _encode(records, kept, encoder, result, tell)
                url = get_settings().chroma_url or ""
                manifest = Manifest(
                    name=name,
                    version=version,
                    created=made.isoformat(timespec="seconds"),
                    passages=records.count,
                    articles=records.articles(),
                    corpus_hash=content.hash,
                    encoder=encoder.id,
                    dimension=dimension,
                    tokenizer=SPARSE,
                    chroma_url=url,
                    libraries=_libraries(),
                )
                _write_halves(new, records, kept, encoder, manifest, tell)
                manifest.files.update(file_sizes(new, ["passages.sqlite", "sparse"]))
                manifest.write(new)
                set_current(folder, version)
                kept.keep_only(vector_key(encoder.id, searchable(p)) for chunk in records.chunks() for p in chunk)
        _prune(folder, new)
    result.manifest = manifest
    result.size = sum(path.stat().st_size for path in new.rglob("*") if path.is_file())
    result.seconds = time.perf_counter() - started
    return result


def _collect(
    records: Records,
    passages: Iterable[Passage | Located],
    old: Path | None,
    remove: Sequence[str],
    result: Built,
    tell: Progress,
) -> None:
    """Write the passages of the new version: what stays of the old one, then what is given."""
    intake = _Intake(result)
    fresh: list[Passage] = []
    given = intake.accept(passages)
    # All that is given is read before the old passages are copied: it says which of them are replaced.
    if old is not None:
        fresh = list(given)
        with contextlib.closing(Records(old / "passages.sqlite")) as before:
            given = _keep(before, records, fresh, set(remove), result)
    for batch in _batches(given, READ_BATCH):
        records.append(_filled(batch))
        tell("read", records.count, None)
    if not records.count:
        if remove:
            raise InputError(
                "this would remove every passage", hint="an index holds at least one; `hopgraph rm index` deletes it"
            )
        raise InputError("no passages with a text were given", hint="see whether the files are the right ones")


class _Intake:
    """Takes passages one by one, reports and drops the empty and the repeated ones, and cuts the long ones."""

    def __init__(self, result: Built) -> None:
        self._result = result
        self._ids: set[str] = set()

    def accept(self, passages: Iterable[Passage | Located]) -> Iterator[Passage]:
        from stores.cutting import split_passage

        for number, item in enumerate(passages, start=1):
            where, passage = item if isinstance(item, Located) else (f"passage {number}", item)
            self._result.read += 1
            if not passage.text.strip():
                self._result.empties.append(where)
            elif passage.id in self._ids:
                self._result.duplicates.append(f"{where}: id {passage.id}")
            else:
                self._ids.add(passage.id)
                parts = split_passage(passage)
                self._ids.update(part.id for part in parts)
                yield from parts


def _keep(
    before: Records, records: Records, fresh: list[Passage], remove: set[str], result: Built
) -> Iterator[Passage]:
    """Copy what stays, and put what is given again into its old place; gives the passages that are new."""
    groups: dict[str, list[Passage]] = {}
    for passage in fresh:
        groups.setdefault(passage.source or passage.id, []).append(passage)
    given, unknown, replaced = set(groups), set(remove), set()
    for chunk in before.chunks():
        rows: list[Passage] = []
        for passage in chunk:
            names = {passage.id, passage.source or passage.id}
            asked = names | {passage.file} if passage.file else names
            unknown -= asked
            if asked & remove:
                result.removed += 1
            elif again := names & given:
                replaced.add(passage.source or passage.id)
                rows += [part for key in sorted(again) for part in groups.pop(key, [])]
            else:
                rows.append(passage)
        records.append(_filled(rows))
    result.replaced = len(replaced)
    if unknown:
        listed = ", ".join(sorted(unknown)[:10])
        hint = "`hopgraph search` shows ids; nothing was removed"
        if not before.has_files:
            hint += (
                ". This index was built by a version that did not keep which file a row came from: give the rows' ids"
            )
        raise StoreError(f"not in the index: {listed}", hint=hint)
    return iter([passage for group in groups.values() for passage in group])


def _compare(old: Path, records: Records, result: Built) -> None:
    """Count what a new index does away with; nothing of a damaged one, which is built anew to mend it."""
    with contextlib.suppress(StoreError), contextlib.closing(Records(old / "passages.sqlite")) as before:
        stay = sum(len(records.named(ids)) for ids in before.ids())
        result.replaces, result.removed = before.count, before.count - stay


class _ContentHash(NamedTuple):
    hash: str
    known: bool
    """Whether the served version has the same content."""


def _content_hash(old: Path | None, records: Records) -> _ContentHash:
    """The hash of what has been collected; that of an index of an earlier version if it is still the same."""
    before = ""
    if old is not None:
        with contextlib.suppress(StoreError):
            before = Manifest.read(old).corpus_hash
    # Runs that were started on an index of an earlier version have to find its hash again.
    if before and not before.startswith(UNORDERED) and records.ordered_hash() == before:
        return _ContentHash(before, known=True)
    found = records.hash()
    return _ContentHash(found, known=found == before)


def _filled(passages: list[Passage]) -> list[Passage]:
    """The passages, each with its sentences: its own, or else spaCy's."""
    from dataclasses import replace

    from stores.sentences import split_sentences

    missing = [i for i, passage in enumerate(passages) if not passage.sentences]
    for i, sentences in zip(missing, split_sentences([passages[i].text for i in missing]), strict=True):
        passages[i] = replace(passages[i], sentences=tuple(sentences))
    return passages


def _encode(records: Records, kept: KeptVectors, encoder: Encoder, result: Built, tell: Progress) -> int:
    """See that every passage's vector is kept; gives their dimension."""
    dimension = done = 0
    for chunk in records.chunks():
        keys = [vector_key(encoder.id, searchable(passage)) for passage in chunk]
        missing = kept.missing(keys)
        done += len(chunk) - len(missing)
        for batch in _batches(iter(missing), BATCH):
            vectors = encoder.encode_passages([searchable(chunk[i]) for i in batch])
            kept.put([keys[i] for i in batch], vectors)
            done += len(batch)
            result.encoded += len(batch)
            tell("encode", done, records.count)
        tell("encode", done, records.count)
        found = kept.get(keys[:1]).shape[1]
        if dimension not in (0, found):
            raise StoreError(
                f"the encoder {encoder.id} gave vectors of {found} dimensions after ones of {dimension}",
                hint="is it another model under the same name? Delete vectors.sqlite in the index's folder",
            )
        dimension = found
    return dimension


def _write_halves(
    new: Path, records: Records, kept: KeptVectors, encoder: Encoder, manifest: Manifest, tell: Progress
) -> None:
    Sparse.build(new / "sparse", ((p.title, p.text) for chunk in records.chunks() for p in chunk))

    def vectors() -> Iterator[Vectors]:
        done = 0
        for chunk in records.chunks():
            yield kept.get([vector_key(encoder.id, searchable(passage)) for passage in chunk])
            done += len(chunk)
            tell("store", done, records.count)

    server = (manifest.chroma_url, manifest.collection) if manifest.chroma_url else None
    Dense.build(new / "dense", vectors(), server)


@contextlib.contextmanager
def _builder(folder: Path, name: str) -> Iterator[None]:
    """Be the only process that builds this index. Wrong input leaves nothing: the same command can't go on with it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("a+", encoding="utf-8") as lock:
            _claim(lock, name)
            try:
                yield
            except InputError:
                old = current_version(folder)
                if old is None and not (folder / "vectors.sqlite").exists():
                    shutil.rmtree(folder, ignore_errors=True)
                else:
                    _prune(folder, old)
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


def _claim(lock: IO[str], name: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        raise StoreError(
            f"index {name!r} is being built by another process ({lock.read().strip() or 'unknown'})",
            hint="wait until it is done; searching the index meanwhile is fine",
        ) from None
    lock.seek(0)
    lock.truncate()
    lock.write(f"process {os.getpid()}")
    lock.flush()


def _prune(folder: Path, keep: Path | None) -> None:
    """Remove versions that are neither served nor being read, and what killed builds have left."""
    for version in sorted((folder / "versions").glob("*")):
        if version == keep:
            continue
        with contextlib.suppress(BlockingIOError), (version / "in_use").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(version)


def _remove(version: Path) -> None:
    with contextlib.suppress(StoreError):
        manifest = Manifest.read(version)
        if manifest.chroma_url:
            Dense.drop((manifest.chroma_url, manifest.collection))
    shutil.rmtree(version)


def _libraries() -> dict[str, str]:
    from importlib.metadata import version

    return {library: version(library) for library in ("bm25s", "chromadb", "numpy", "PyStemmer")}


def _batches(items: Iterator[T], size: int) -> Iterator[list[T]]:
    while batch := list(islice(items, size)):
        yield batch
