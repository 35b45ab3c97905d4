"""The passages of an index in SQLite, by row and by id."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inference.errors import StoreError
from stores.manifest import index_again
from stores.metadata import Value
from stores.passages import Passage
from stores.sqlite import select_in
from stores.where import All, Comparison, Contains, Either, Filter, Missing, Not

_TABLES = """
CREATE TABLE IF NOT EXISTS passages (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, title TEXT NOT NULL, text TEXT NOT NULL, sentences TEXT NOT NULL,
    source TEXT NOT NULL, file TEXT NOT NULL, page TEXT NOT NULL, headings TEXT NOT NULL, metadata TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS metadata (
    field TEXT NOT NULL, kind TEXT NOT NULL, value, row INTEGER NOT NULL, PRIMARY KEY (field, kind, value, row)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, digest TEXT NOT NULL)
"""
_COLUMNS = "id, title, text, sentences, source"
_LATER = {"file": "''", "page": "''", "headings": "'[]'", "metadata": "'{}'"}
"""Columns that indexes of earlier versions lack, with what stands for them."""
UNORDERED = "set:"
"""Prefix of order-independent content hashes; hashes of earlier versions lack it."""
PARTLY = "partly:"
"""Before the digest of a file whose passages are not here exactly as one reading of it gives them: some were split, or
dropped as duplicates."""
_CHUNK = 512


def searchable(passage: Passage) -> str:
    """The encoder's input for a passage."""
    return f"{passage.title}. {passage.text}" if passage.title else passage.text


class Records:
    """Passages by row (0, 1, 2, ... without gaps). Thread-safe for reading; one writer.

    Raises:
        StoreError: The file is missing, not such a database, or damaged; any method may raise it.
    """

    def __init__(self, path: Path, *, writable: bool = False) -> None:
        self._path = path
        # `immutable` needs neither locks nor write access; finished versions never change.
        uri = path.absolute().as_uri() + ("" if writable else "?mode=ro&immutable=1")
        self._lock = threading.Lock()
        try:
            self._db = sqlite3.connect(uri, uri=True, check_same_thread=False)
            if writable:
                self._db.executescript(_TABLES)
            self.count = self._count()
            columns = {str(row[1]) for row in self._db.execute("PRAGMA table_info(passages)")}
        except sqlite3.Error as error:
            raise self._damaged(error) from error
        self.has_files = "file" in columns
        """Whether it says which file each passage was read from; indexes of earlier versions do not."""
        self.has_metadata = "metadata" in columns
        """Whether it keeps metadata; indexes of earlier versions do not."""
        self._columns = ", ".join([_COLUMNS, *(name if name in columns else empty for name, empty in _LATER.items())])

    def _count(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM passages").fetchone()[0])

    def append(self, passages: Iterable[Passage]) -> None:
        """Append passages after the last row."""
        given = list(passages)
        rows = [
            (
                self.count + i,
                p.id,
                p.title,
                p.text,
                _json(p.sentences),
                p.source,
                p.file,
                p.page,
                _json(p.headings),
                _json(dict(p.metadata)),
            )
            for i, p in enumerate(given)
        ]
        fields = [
            (name, kind_of(value), value, self.count + i)
            for i, p in enumerate(given)
            for name, value in p.metadata.items()
        ]
        with self._db:
            self._db.executemany("INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
            self._db.executemany("INSERT INTO metadata VALUES (?, ?, ?, ?)", fields)
        self.count += len(rows)

    def set_files(self, digests: Mapping[str, str]) -> None:
        """Record the files whose passages are here, with the digests of their content."""
        with self._db:
            self._db.executemany("INSERT INTO files VALUES (?, ?)", sorted(digests.items()))
            if digests:
                self._db.execute("CREATE INDEX passages_by_file ON passages (file)")

    def files(self) -> dict[str, str]:
        """Digests of files by name, some after `PARTLY`; none in an index of an earlier version."""
        known = self._all("SELECT name FROM sqlite_master WHERE name = 'files'")
        return {str(path): str(digest) for path, digest in self._all("SELECT path, digest FROM files")} if known else {}

    def file_names(self) -> set[str]:
        """Names of the files from which passages were read; "" among them if some came from none."""
        return {str(name) for (name,) in self._all("SELECT DISTINCT file FROM passages")} if self.has_files else {""}

    def of_file(self, name: str) -> Iterator[Passage]:
        """Passages read from a file, in row order."""
        rows = [int(row) for (row,) in self._all("SELECT row FROM passages WHERE file = ? ORDER BY row", [name])]
        for start in range(0, len(rows), _CHUNK):
            yield from self.at(rows[start : start + _CHUNK]).values()

    def chunks(self) -> Iterator[list[Passage]]:
        """All passages in row order, in chunks of some hundred."""
        for start in range(0, self.count, _CHUNK):
            yield list(self.at(range(start, min(start + _CHUNK, self.count))).values())

    def at(self, rows: Sequence[int]) -> dict[int, Passage]:
        """Passages of existing rows, in the order given."""
        found = {int(row): _passage(values) for row, *values in self._select(f"row, {self._columns}", "row", rows)}
        return {row: found[row] for row in rows}

    def heads(self, rows: Sequence[int]) -> dict[int, tuple[str, str]]:
        """Id and title of existing rows."""
        return {int(row): (str(i), str(title)) for row, i, title in self._select("row, id, title", "row", rows)}

    def named(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Existing passages by id."""
        return {str(v[0]): _passage(v) for v in self._select(self._columns, "id", ids)}

    def sources(self, ids: Sequence[str]) -> set[str]:
        """The ids that are articles from which passages were split."""
        return {str(row[0]) for row in self._select("DISTINCT source", "source", ids)}

    def ids(self) -> Iterator[list[str]]:
        """All ids in row order, in chunks of some hundred."""
        for start in range(0, self.count, _CHUNK):
            rows = range(start, min(start + _CHUNK, self.count))
            yield [str(found) for (found,) in self._select("id", "row", rows)]

    def titles(self) -> set[str]:
        """Distinct titles of passages."""
        return {str(title) for (title,) in self._all("SELECT DISTINCT title FROM passages")}

    def starts(self, ids: Sequence[str]) -> dict[str, int]:
        """For existing ids: the number of sentences before the passage in its article."""
        starts = dict.fromkeys(self.named(ids), 0)
        # A part's id is its article's id, `#`, and a hash; unsplit passages have no source.
        cut = {(p.id.rpartition("#")[0], p.source) for p in self.named(ids).values() if p.source and "#" in p.id}
        for article, source in cut:
            condition = "WHERE id > ? AND id < ? AND source = ? ORDER BY row"
            parts = self._all(f"SELECT id, sentences FROM passages {condition}", [f"{article}#", f"{article}$", source])  # noqa: S608
            before = 0
            for passage_id, sentences in parts:
                if passage_id in starts:
                    starts[passage_id] = before
                before += len(json.loads(sentences))
        return starts

    def fields(self) -> list[str]:
        """The names of all metadata fields, sorted."""
        if not self.has_metadata:
            return []
        return [str(name) for (name,) in self._all("SELECT DISTINCT field FROM metadata ORDER BY field")]

    def holding(self, where: Filter) -> NDArray[np.bool_]:
        """Whether each row meets a filter, shape (rows,)."""
        match where:
            case Not(inner):
                return ~self.holding(inner)
            case All(parts):
                return reduce(np.logical_and, map(self.holding, parts))
            case Either(parts):
                return reduce(np.logical_or, map(self.holding, parts))
            case Missing(name):
                return ~self._rows("", [name])
            case Contains(name, text):
                return self._rows("AND kind = 'text' AND instr(value, ?)", [name, text])
            case Comparison(name, "!=", value):
                return self._rows("AND NOT (kind = ? AND value = ?)", [name, kind_of(value), value])
            case Comparison(name, operator, value):
                return self._rows(f"AND kind = ? AND value {operator} ?", [name, kind_of(value), value])

    def _rows(self, condition: str, values: Sequence[Value]) -> NDArray[np.bool_]:
        found = self._all(f"SELECT row FROM metadata WHERE field = ? {condition}", values)  # noqa: S608
        mask = np.zeros(self.count, np.bool_)
        mask[[row for (row,) in found]] = True
        return mask

    def hash(self) -> str:
        """Hash of the content, independent of the order of passages, except the parts of an article.

        The SHA-256 of the sorted SHA-256s of the passages, with 32 bytes of memory per passage. The parts of an article
        are numbered, because their order determines the numbering of its sentences.
        """
        digests = np.empty(self.count, "S32")
        row = 0
        article, part = "", 0
        for passages in self.chunks():
            for passage in passages:
                part = part + 1 if passage.source and passage.source == article else 0
                article = passage.source
                digests[row] = hashlib.sha256(_content([*_fields(passage), part])).digest()
                row += 1
        digests.sort()
        return UNORDERED + hashlib.sha256(digests.data).hexdigest()

    def ordered_hash(self) -> str:
        """Content hash of earlier versions: SHA-256 of all passages in row order."""
        digest = hashlib.sha256()
        for passages in self.chunks():
            for passage in passages:
                digest.update(_content(_fields(passage)))
        return digest.hexdigest()

    def articles(self) -> int:
        """Number of passages before long ones were split."""
        [(count,)] = self._all("SELECT count(DISTINCT CASE source WHEN '' THEN id ELSE source END) FROM passages")
        return int(count)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _select(self, columns: str, key: str, values: Sequence[Value]) -> list[tuple[Any, ...]]:
        return select_in(self._all, f"{columns} FROM passages", key, values)

    def _all(self, statement: str, values: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                return self._db.execute(statement, list(values)).fetchall()
        except sqlite3.Error as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> StoreError:
        return StoreError(
            f"{self._path} can't be read: {error}",
            hint=index_again(self._path),
        )


def _passage(values: Sequence[object]) -> Passage:
    identifier, title, text, sentences, source, file, page, headings, metadata = map(str, values)
    return Passage(
        identifier,
        title,
        text,
        tuple(json.loads(sentences)),
        source,
        file,
        page,
        tuple(json.loads(headings)),
        json.loads(metadata),
    )


def kind_of(value: Value) -> str:
    """The type of a metadata value: values of different types are never equal."""
    return "text" if isinstance(value, str) else "truth" if isinstance(value, bool) else "number"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _fields(passage: Passage) -> list[Any]:
    """The content of a passage: not its file, page and headings. Without metadata it is that of earlier versions."""
    own = [passage.id, passage.title, passage.text, passage.sentences, passage.source]
    return [*own, dict(sorted(passage.metadata.items()))] if passage.metadata else own


def _content(values: list[Any]) -> bytes:
    return json.dumps(values, ensure_ascii=False).encode()
