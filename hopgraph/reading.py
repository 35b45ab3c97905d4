"""Reads the files of a command as passages. A file that can't be read is reported, and the others are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from hopgraph.sources import JSON_LINES, Unread
from inference.errors import InputError
from stores.collect import Located
from stores.documents import Parse, read_document
from stores.passages import check_numbered, read_numbered
from stores.readers.isolated import IsolatedParser

_EVERY = 256
"""Passages of a file between two reports."""


class Reading:
    """Reads files one after another, each wholly or not at all.

    Documents are parsed in a process of their own, with limits on time and memory.

    Args:
        files: The files.
        strict: Raise for the first file that can't be read, instead of reporting it in `failed`.
        progress: Called during the work.
    """

    def __init__(
        self, files: Sequence[Path], *, strict: bool = False, progress: Callable[[Reading], None] | None = None
    ) -> None:
        self.files = list(files)
        self.failed: list[Unread] = []
        """Files that could not be read."""
        self.done = 0
        """Files done, these among them."""
        self.passages = 0
        """Passages read."""
        self._strict = strict
        self._progress = progress

    def read(self) -> Iterator[Located]:
        """All passages, each with its place and its file.

        Raises:
            InputError: A file can't be read, and reading is strict; or none can be read.
        """
        yield from self.tried()
        self.check()

    def tried(self) -> Iterator[Located]:
        """As `read`, without an error if no file can be read."""
        with IsolatedParser() as parser:
            for path in self.files:
                yield from self.read_file(path, parser.parse)

    def read_file(self, path: Path, parse: Parse) -> Iterator[Located]:
        """Passages of one file; none if it can't be read.

        Args:
            path: The file.
            parse: Reads documents that are read as a whole.
        """
        try:
            yield from self.counted(_located(path, parse))
        except InputError as error:
            if self._strict:
                raise
            self.failed.append(Unread(str(path), error.message, error.hint))
        self.end_file()

    def counted(self, passages: Iterator[Located]) -> Iterator[Located]:
        """Passages of a file, counted."""
        for located in passages:
            self.passages += 1
            if self.passages % _EVERY == 0 and self._progress is not None:
                self._progress(self)
            yield located

    def end_file(self) -> None:
        """Count a file."""
        self.done += 1
        if self._progress is not None:
            self._progress(self)

    def check(self) -> None:
        """Check that a file could be read.

        Raises:
            InputError: None could.
        """
        if self.failed and len(self.failed) == len(self.files):
            first, *others = self.failed
            more = f"; and {len(others)} more files can't be read" if others else ""
            raise InputError(first.reason + more, hint=first.hint)


def read_sources(files: Sequence[Path]) -> Iterator[Located]:
    """All passages of files.

    Raises:
        InputError: A file can't be read; the message names it, and the line where there is one.
    """
    return Reading(files, strict=True).read()


def _located(path: Path, parse: Parse) -> Iterator[Located]:
    if path.name.lower().endswith(JSON_LINES):
        check_numbered(path)
        for line, passage in read_numbered(path):
            yield Located(f"{path}, line {line}", replace(passage, file=str(path)))
    else:
        for number, passage in enumerate(read_document(path, name=str(path), parse=parse), start=1):
            yield Located(f"{path}, passage {number}", replace(passage, file=str(path)))
