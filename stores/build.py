"""Building, extending, reducing and re-encoding indexes. The new version is served once it is complete."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from inference.base_url import split_urls
from inference.encoders.configured import get_encoder
from inference.encoders.vectors import Encoder
from inference.errors import InputError, StoreError
from inference.settings import get_settings
from stores.bm25 import write_sparse
from stores.collect import Built, Located, Progress, batches, collect, compare, content_hash
from stores.languages import ENGLISH, check_language
from stores.links import write_links
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
from stores.records import PARTLY, Records, searchable
from stores.sentences import splitting
from stores.shards import MOST_SHARDS, Shards
from stores.sparse import tokenizer_of
from stores.vectors import KeptVectors, vector_key
from stores.versions import building, prune
from stores.words import Words
from stores.workers import Batch, InProcess, Workers

BATCH = 256
"""Passages encoded between two commits, the most a kill can lose."""
MOST_IN_SHARD = 500_000
"""Passages of a shard of a new index whose number of shards nobody chose. Building takes 1.9 KB of memory for each."""


def build_index(
    name: str,
    passages: Iterable[Passage | Located],
    *,
    encoder: Encoder | None = None,
    shards: int | None = None,
    workers: Workers | None = None,
    progress: Progress | None = None,
    confirm: Callable[[Built], None] | None = None,
    language: str | None = None,
    files: Mapping[str, str] | None = None,
) -> Built:
    """Build an index, or replace all passages of an existing one.

    Passages of more than 300 words are split at sentence boundaries; missing sentences are filled in. An interrupted
    build resumes when started again: finished vectors are cached by content.

    Args:
        name: Letters, digits, '-', '_' and '.'.
        passages: At least one with a text.
        encoder: Default: the one from the settings.
        shards: Number of shards. Default: as many as the index has; for a new one, one for every `MOST_IN_SHARD`
            passages, or a single one on a Chroma server.
        workers: Who does the work. Default: this process.
        progress: Called with the progress.
        confirm: Called when all passages are read, before different content is overwritten; see `replaces` and
            `removed`. An error that it raises leaves the index unchanged.
        language: Language of the passages, a code of `stores.languages`; default: as the index has, or English.
        files: Digests of the files of the passages, by `Passage.file`; looked at when all passages are read. They are
            kept with the index: see `Records.files`.

    Raises:
        InputError: The name is invalid, the language is unknown, there are no passages, or fewer shards than Chroma
            servers.
        StoreError: Another process is building this index, or writing fails.
        EndpointError: The embeddings or Chroma server fails.
    """
    return _build(
        name,
        passages,
        (),
        encoder,
        progress,
        base="nothing",
        shards=shards,
        workers=workers,
        confirm=confirm,
        language=language,
        files=files or {},
    )


def add_to_index(
    name: str,
    passages: Iterable[Passage | Located],
    *,
    encoder: Encoder | None = None,
    workers: Workers | None = None,
    progress: Progress | None = None,
    language: str | None = None,
) -> Built:
    """Add passages to an index; those with an existing id (or article id) replace the old ones, row by row.

    Idempotent: unchanged passages keep their rows, so that neither the index's hash nor any search result changes.
    Errors as for `build_index`; StoreError if there is no such index; InputError for a language other than its own.
    """
    return _build(name, passages, (), encoder, progress, base="this encoder's", workers=workers, language=language)


def remove_from_index(
    name: str, ids: Sequence[str], *, encoder: Encoder | None = None, progress: Progress | None = None
) -> Built:
    """Remove passages by id, by article id, or by the file they were read from.

    Errors as for `build_index`; StoreError also for an unknown id, and then nothing is removed.
    """
    return _build(name, (), ids, encoder, progress, base="this encoder's")


def rebuild_index(
    name: str,
    *,
    encoder: Encoder | None = None,
    shards: int | None = None,
    workers: Workers | None = None,
    progress: Progress | None = None,
    language: str | None = None,
) -> Built:
    """Rebuild an index from its own passages: after the encoder changed, files were damaged, or in other shards.

    Vectors are kept unless the encoder changed. With another language, words are stemmed anew; sentences stay as they
    were split.

    Errors as for `build_index`; StoreError if there is no such index or its passages can't be read.
    """
    return _build(
        name,
        (),
        (),
        encoder,
        progress,
        base="any encoder's",
        shards=shards,
        workers=workers,
        language=language,
    )


def _build(
    name: str,
    passages: Iterable[Passage | Located],
    remove: Sequence[str],
    encoder: Encoder | None,
    progress: Progress | None,
    *,
    base: Literal["nothing", "any encoder's", "this encoder's"],
    shards: int | None = None,
    workers: Workers | None = None,
    confirm: Callable[[Built], None] | None = None,
    language: str | None = None,
    files: Mapping[str, str] | None = None,
) -> Built:
    language = check_language(language) if language is not None else None
    started = time.perf_counter()
    tell: Progress = progress or (lambda stage, done, total: None)
    folder = index_folder(name)
    if base != "nothing" and current_version(folder) is None:
        adds = base == "this encoder's" and not remove
        hint = "the same without --add makes it" if adds else f"make it first, such as `{index_command(name)}`"
        raise StoreError(f"no index named {name!r}", hint=hint)
    encoder = encoder or get_encoder()
    workers = workers or InProcess(encoder)
    result = Built()
    with building(folder, name):
        old = current_version(folder)
        if old is not None and base == "this encoder's":
            check_encoder(before := Manifest.read(old), encoder.id)
            if language not in (None, before.language):
                raise InputError(
                    f"index {name!r} is in the language {before.language}, not {language}",
                    hint="an index has one language: make another index, or replace this one",
                )
        language = language or _language_of(old)
        url = get_settings().chroma_url or ""
        count = _shard_count(shards, old, url)
        prune(folder, old)
        made = datetime.now(UTC)
        version = f"{made:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
        new = folder / "versions" / version
        new.mkdir(parents=True)
        (new / "in_use").touch()
        with contextlib.closing(Records(new / "passages.sqlite", writable=True)) as records:
            base_version = None if base == "nothing" else old
            with splitting(language):
                altered = collect(records, passages, base_version, remove, result, tell, workers.fill_sentences)
            if base == "nothing" and old is not None:
                compare(old, records, result)
            if files is not None:
                known = {
                    path: PARTLY + digest if path in altered and not digest.startswith(PARTLY) else digest
                    for path, digest in files.items()
                }
            elif language == _language_of(old):  # what was added, removed or replaced is no longer as in its file
                known = {path: digest for path, digest in _files(old).items() if path not in altered}
            else:  # files are split into sentences by the rules of the language, and must be read again
                known = {}
            records.set_files(known)
            content = content_hash(old, records)
            if confirm is not None and result.replaces and not content.known:
                confirm(result)
            with contextlib.closing(KeptVectors(folder / "vectors.sqlite")) as kept:
                dimension = _encode(records, kept, encoder.id, workers, result, tell)
                manifest = Manifest(
                    name=name,
                    version=version,
                    created=made.isoformat(timespec="seconds"),
                    passages=records.count,
                    articles=records.articles(),
                    corpus_hash=content.hash,
                    encoder=encoder.id,
                    dimension=dimension,
                    tokenizer=tokenizer_of(language),
                    language=language,
                    chroma_url=url,
                    libraries=_libraries(),
                    shards=count or -(-records.count // MOST_IN_SHARD),
                )
                manifest.write(new)  # if this build is killed, the next one finds its collections on a server by it
                _write_halves(new, records, manifest, workers, tell)
                manifest.files.update(file_sizes(new, ["passages.sqlite", "shards.npy", "sparse", "links"]))
                manifest.write(new)
                set_current(folder, version)
                kept.keep_only(vector_key(encoder.id, searchable(p)) for chunk in records.chunks() for p in chunk)
        prune(folder, new)
    result.manifest = manifest
    result.size = sum(path.stat().st_size for path in new.rglob("*") if path.is_file())
    result.seconds = time.perf_counter() - started
    return result


def _language_of(version: Path | None) -> str:
    """The language of a version; English for a new or damaged one."""
    if version is not None:
        with contextlib.suppress(StoreError):
            return Manifest.read(version).language
    return ENGLISH


def _files(old: Path | None) -> dict[str, str]:
    if old is None:
        return {}
    with contextlib.closing(Records(old / "passages.sqlite")) as before:
        return before.files()


def _encode(records: Records, kept: KeptVectors, encoder: str, workers: Workers, result: Built, tell: Progress) -> int:
    """Encode passages without a cached vector; returns the dimension."""
    done = 0

    def missing() -> Iterator[Batch]:
        nonlocal done
        for chunk in records.chunks():
            keys = [vector_key(encoder, searchable(passage)) for passage in chunk]
            lacking = kept.missing(keys)
            done += len(chunk) - len(lacking)
            tell("encode", done, records.count)
            for batch in batches(iter(lacking), BATCH):
                yield Batch([keys[i] for i in batch], [searchable(chunk[i]) for i in batch])

    for keys, vectors in workers.encode(missing()):
        kept.put(keys, vectors)
        done += len(keys)
        result.encoded += len(keys)
        tell("encode", done, records.count)
    dimension = 0
    for chunk in records.chunks():
        found = kept.get([vector_key(encoder, searchable(chunk[0]))]).shape[1]
        if dimension not in (0, found):
            raise StoreError(
                f"the encoder {encoder} gave vectors of {found} dimensions after ones of {dimension}",
                hint="is it another model under the same name? Delete vectors.sqlite in the index's folder",
            )
        dimension = found
    return dimension


def _shard_count(wanted: int | None, old: Path | None, url: str) -> int | None:
    """Number of shards: as wanted, or as in the old version; None if the number of passages decides."""
    count = wanted
    if wanted is None and old is not None:
        with contextlib.suppress(StoreError):
            count = Manifest.read(old).shards
    if count is None and not url:
        return None
    count = 1 if count is None else count
    if not 1 <= count <= MOST_SHARDS:
        raise InputError(f"shards: must be 1 to {MOST_SHARDS:,}, not {count:,}")
    if len(servers := split_urls(url)) > count:
        raise InputError(
            f"HOPGRAPH_CHROMA_URL names {len(servers)} servers, and the index has {count} shard{'s'[: count > 1]}",
            hint=f"give each server a shard: --shards {len(servers)}, for an existing index --reshard {len(servers)}",
        )
    return count


def _write_halves(new: Path, records: Records, manifest: Manifest, workers: Workers, tell: Progress) -> None:
    texts = ((p.title, p.text) for chunk in records.chunks() for p in chunk)
    with Words.within(new, texts, manifest.language) as words:
        write_sparse(new / "sparse", words)
        write_links(new / "links", words)
    if manifest.shards > 1:
        Shards.write(new / "shards.npy", records.ids(), manifest.shards)
    done = 0

    def on_stored(count: int) -> None:
        nonlocal done
        done += count
        tell("store", done, records.count)

    workers.store(new, manifest, on_stored)


def _libraries() -> dict[str, str]:
    from importlib.metadata import version

    return {library: version(library) for library in ("bm25s", "chromadb", "numpy", "PyStemmer")}
