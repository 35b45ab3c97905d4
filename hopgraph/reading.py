"""Reads the files of a command as passages. A file that can't be read is reported, and the others are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from hopgraph.sources import Unread, is_json_lines
from inference.errors import InputError
from stores.collect import Located
from stores.documents import read_document
from stores.passages import check_numbered, read_numbered
from stores.readers.isolated import IsolatedParser

Locate = Callable[[Path], Iterator[Located]]
"""Gives the passages of a file."""
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

    def read(self, locate: Locate | None = None) -> Iterator[Located]:
        """All passages, each with its place and its file.

        Args:
            locate: Gives the passages of one file; default: this process reads it.

        Raises:
            InputError: A file can't be read, and reading is strict; or none can be read.
        """
        yield from self.tried(locate)
        self.check()

    def tried(self, locate: Locate | None = None) -> Iterator[Located]:
        """As `read`, without an error if no file can be read."""
        with IsolatedParser() as parser:
            for path in self.files:
                yield from self.read_file(path, locate or located_by(parser))

    def read_file(self, path: Path, locate: Locate) -> Iterator[Located]:
        """Passages of one file; none if it can't be read.

        Raises:
            InputError: It can't be read, and reading is strict; or it changed meanwhile, and some passages were given.
        """
        before = self.passages
        try:
            yield from self.counted(locate(path))
        except InputError as error:
            if self._strict or self.passages > before:
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


def located_by(parser: IsolatedParser) -> Locate:
    """Reads a file with a parser."""
    return lambda path: read_source(path, str(path), parser)


def read_source(path: Path, name: str, parser: IsolatedParser) -> Iterator[Located]:
    """All passages of a file, which is named otherwise in them. Errors as for `read_sources`."""
    if is_json_lines(path):
        yield from read_json_lines(path, name)
    else:
        for number, passage in enumerate(read_document(path, name=name, parse=parser.parse), start=1):
            yield Located(f"{name}, passage {number}", replace(passage, file=name))


def read_json_lines(path: Path, name: str) -> Iterator[Located]:
    """All passages of a JSON Lines file, all lines of which are checked first. Errors as for `read_sources`."""
    check_numbered(path)
    for line, passage in read_numbered(path):
        yield Located(f"{name}, line {line}", replace(passage, file=name))
