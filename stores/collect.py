"""Collects the passages of a new version of an index: the given ones, and those kept from the old version."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

from inference.errors import InputError, StoreError
from stores.cutting import split_passage
from stores.manifest import Manifest
from stores.passages import Passage
from stores.records import UNORDERED, Records
from stores.seen import Seen
from stores.sentences import split_sentences

READ_BATCH = 512

T = TypeVar("T")
Progress = Callable[[Literal["read", "encode", "store"], int, int | None], None]
"""Called with the stage, the number of passages done, and the total (None: unknown)."""


class Located(NamedTuple):
    """A passage and its origin for reports, such as `corpus.jsonl, line 12`."""

    where: str
    passage: Passage


@dataclass
class Built:
    """Result of a build."""

    manifest: Manifest = field(init=False)
    read: int = 0
    """Passages given, before long ones were split."""
    duplicates: list[str] = field(default_factory=list)
    """Locations of duplicate ids; the first passage of an id is kept."""
    empties: list[str] = field(default_factory=list)
    """Locations of passages without text, which are skipped."""
    failed: list[str] = field(default_factory=list)
    """Files that could not be read, each with the reason; set by who reads them."""
    replaced: int = 0
    """Passages or articles already in the index that were given again."""
    replaces: int = 0
    """Passages of the index that are replaced."""
    removed: int = 0
    """Passages that are no longer in the index."""
    encoded: int = 0
    """Passages encoded now; the other vectors were cached."""
    seconds: float = 0.0
    size: int = 0
    """Bytes on disk of the served version."""


def collect(
    records: Records,
    passages: Iterable[Passage | Located],
    old: Path | None,
    remove: Sequence[str],
    result: Built,
    tell: Progress,
    fill_sentences: Callable[[Iterable[list[Passage]]], Iterator[list[Passage]]],
) -> set[str]:
    """Write the passages of the new version: those kept from the old one, then the given ones.

    Returns the altered files: those whose passages are not here exactly as one reading of the file gives them, since
    some were replaced, removed, added, split, or dropped as duplicates.
    """
    intake = _Intake(result)
    fresh: list[Passage] = []
    given = intake.accept(passages)
    # Read all given passages before copying the old ones: they determine which are replaced.
    if old is not None:
        fresh = list(given)
        with contextlib.closing(Records(old / "passages.sqlite")) as before:
            intake.altered.update(passage.file for passage in fresh)
            given = _keep(before, records, fresh, set(remove), result, intake.altered)
    for batch in fill_sentences(batches(given, READ_BATCH)):
        records.append(batch)
        tell("read", records.count, None)
    if not records.count:
        if remove:
            raise InputError(
                "this would remove every passage", hint="an index holds at least one; `hopgraph rm index` deletes it"
            )
        raise InputError("no passages with a text were given", hint="see whether the files are the right ones")
    return intake.altered


class _Intake:
    """Filters passages: drops and reports empty and duplicate ones, and splits long ones."""

    def __init__(self, result: Built) -> None:
        self._result = result
        self._ids = Seen()
        self.altered: set[str] = set()
        """Files of which a passage was dropped or split."""

    def accept(self, passages: Iterable[Passage | Located]) -> Iterator[Passage]:
        for number, item in enumerate(passages, start=1):
            where, passage = item if isinstance(item, Located) else (f"passage {number}", item)
            self._result.read += 1
            if not passage.text.strip():
                self._result.empties.append(where)
            elif self._ids.add(passage.id.encode()) > 1:
                self._result.duplicates.append(f"{where}: id {passage.id}")
                self.altered.add(passage.file)
            else:
                parts = split_passage(passage)
                if parts != [passage]:
                    self.altered.add(passage.file)
                    for part in parts:
                        self._ids.add(part.id.encode())
                yield from parts


def _keep(
    before: Records, records: Records, fresh: list[Passage], remove: set[str], result: Built, altered: set[str]
) -> Iterator[Passage]:
    """Copy the kept passages, and put replacements in the old rows; returns the new passages."""
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
                altered.add(passage.file)
            elif again := names & given:
                replaced.add(passage.source or passage.id)
                altered.add(passage.file)
                rows += [part for key in sorted(again) for part in groups.pop(key, [])]
            else:
                rows.append(passage)
        records.append(filled(rows))
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


def compare(old: Path, records: Records, result: Built) -> None:
    """Count the passages that a new version replaces and removes; not if the old one is damaged."""
    with contextlib.suppress(StoreError), contextlib.closing(Records(old / "passages.sqlite")) as before:
        stay = sum(len(records.named(ids)) for ids in before.ids())
        result.replaces, result.removed = before.count, before.count - stay


class ContentHash(NamedTuple):
    """The hash of an index's content."""

    hash: str
    known: bool
    """Whether the served version has the same content."""


def content_hash(old: Path | None, records: Records) -> ContentHash:
    """The hash of the collected passages; in an earlier version's format if the content is unchanged."""
    before = ""
    if old is not None:
        with contextlib.suppress(StoreError):
            before = Manifest.read(old).corpus_hash
    # Runs started on an index of an earlier version must find the same hash.
    if before and not before.startswith(UNORDERED) and records.ordered_hash() == before:
        return ContentHash(before, known=True)
    found = records.hash()
    return ContentHash(found, known=found == before)


def filled(passages: list[Passage]) -> list[Passage]:
    """The passages, with sentences filled in by spaCy where missing."""
    missing = [i for i, passage in enumerate(passages) if not passage.sentences]
    for i, sentences in zip(missing, split_sentences([passages[i].text for i in missing]), strict=True):
        passages[i] = replace(passages[i], sentences=tuple(sentences))
    return passages


def batches(items: Iterator[T], size: int) -> Iterator[list[T]]:
    """Lists of up to `size` items, in order."""
    while batch := list(islice(items, size)):
        yield batch
