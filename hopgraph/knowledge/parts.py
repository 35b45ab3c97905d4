"""Parts of a reading that several processes do side by side, in `reading/` in the index's folder.

    I-of-N.jsonl     passages that part I has read, with their pairs and vectors
    I-of-N.sqlite    checkpoints of those under way
    I-of-N.lock      held by the process that reads the part

The process that holds the knowledge base takes the lines over. The folder stays while a passage is under way.
"""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hopgraph.evaluation.folder import Lines
from inference.encoders.vectors import Vectors
from stores.index import Index
from stores.manifest import index_folder
from stores.pairs import Pairs
from stores.passages import content_id
from stores.readings import Pair, Reading
from stores.shards import shard_of

_FIELDS = {"reading", "pairs", "vectors"}


@dataclass(frozen=True)
class Part:
    """One part of a reading."""

    folder: Path
    number: int
    """From 1."""
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def path(self, suffix: str) -> Path:
        """One of its files."""
        return self.folder / f"{self.number}-of-{self.of}.{suffix}"

    @property
    def lines(self) -> Lines:
        """What it has read."""
        return Lines(self.path("jsonl"), _FIELDS)

    def own(self, ids: Sequence[str]) -> list[str]:
        """Its share of passages, by the hash of their ids."""
        return [key for key in ids if shard_of(key, self.of) == self.number - 1]


def parts_folder(index: str) -> Path:
    """Folder of the parts of an index's reading."""
    return index_folder(index).resolve() / "reading"


def open_parts(index: str) -> list[Part]:
    """The parts of an unfinished reading, by number."""
    folder = parts_folder(index)
    count = next((int(path.stem.rpartition("-")[2]) for path in folder.glob("*-of-*.jsonl")), 0)
    return [Part(folder, number, count) for number in range(1, count + 1)]


def start_parts(index: str, count: int) -> list[Part]:
    """New parts, or those of the unfinished reading, however many these are."""
    if parts := open_parts(index):
        return parts
    folder = parts_folder(index)
    folder.mkdir(exist_ok=True)
    parts = [Part(folder, number, count) for number in range(1, count + 1)]
    for part in parts:
        part.path("jsonl").touch()
    return parts


def any_interrupted(index: str) -> bool:
    """Whether a part has checkpoints of passages under way."""
    return any(part.path("sqlite").exists() for part in open_parts(index))


def remove_parts(index: str) -> None:
    """Delete the parts of a reading."""
    shutil.rmtree(parts_folder(index), ignore_errors=True)


def as_line(reading: Reading, pairs: Sequence[Pair], vectors: Vectors) -> dict[str, Any]:
    """The line of a passage that was read."""
    rows = base64.b64encode(vectors.astype("<f4").tobytes()).decode()
    return {"reading": asdict(reading), "pairs": [astuple(pair) for pair in pairs], "vectors": rows}


def take_line(line: Mapping[str, Any], index: Index, base: Pairs) -> Reading | None:
    """Take a line over into the knowledge base; None if the index no longer has this passage."""
    reading = Reading(**line["reading"])
    if reading.passage not in index:
        return None
    (passage,) = index.get([reading.passage])
    if content_id(passage.title, passage.text) != reading.content:
        return None
    pairs = [Pair(*values) for values in line["pairs"]]
    base.add(reading, pairs, np.frombuffer(base64.b64decode(line["vectors"]), "<f4").reshape(len(pairs), -1))
    return reading


def collect(index: Index, base: Pairs) -> None:
    """Take over what the parts of an unfinished reading have and the knowledge base has not.

    Raises:
        StoreError: A line is damaged.
    """
    parts = open_parts(index.name)
    done = base.done() if parts else set()
    for line in _lines(parts):
        if line["reading"]["passage"] not in done:
            take_line(line, index, base)


def _lines(parts: Sequence[Part]) -> Iterator[dict[str, Any]]:
    for part in parts:
        yield from part.lines
