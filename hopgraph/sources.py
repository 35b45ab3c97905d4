"""Input files of a command: named files, and all readable files below named folders."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from inference.errors import InputError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

JSON_LINES = (".jsonl", ".jsonl.gz")
IGNORE_FILE = ".hopgraphignore"
"""Patterns of files that are not read, as in `.gitignore`; in any folder, for what is below it."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A file or folder that could not be read."""

    file: str
    reason: str
    """What is wrong; begins with the file's name."""
    hint: str


@dataclass
class Sources:
    """Files to read, in order, and what is not read in folders."""

    files: list[Path] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    """How many files of folders are not read, by suffix or by cause."""
    passed: list[str] = field(default_factory=list)
    """Those of them that have a suffix that is read, each with the cause: empty, excluded, ..."""
    failed: list[Unread] = field(default_factory=list)
    """Folders that can't be read, and files and folders whose names are not UTF-8."""

    def __str__(self) -> str:
        return self.summary()

    def summary(self, unread: int = 0) -> str:
        """What was read and skipped; `unread`: how many of the files could not be read."""
        count = len(self.files) - unread
        parts = [f"read {count:,} file{'' if count == 1 else 's'}"]
        if unread:
            parts.append(f"could not read {unread:,}")
        if self.skipped:
            most_first = sorted(self.skipped.items(), key=lambda item: (-item[1], item[0]))
            kinds = ", ".join(f"{count:,} {kind}" for kind, count in most_first)
            parts.append(f"skipped {self.skipped.total():,} ({kinds})")
        return ", ".join(parts)


def find_sources(paths: Sequence[Path], *, exclude: Sequence[str] = (), strict: bool = False) -> Sources:
    """The files named, and those below the folders named, sorted; each once.

    In folders, hidden entries, empty files, links to folders, files of other kinds and those that a pattern or an
    `IGNORE_FILE` excludes are skipped and counted.

    Args:
        paths: Files and folders.
        exclude: Patterns as in `.gitignore`, relative to each folder named.
        strict: Raise for a folder below that can't be read, instead of reporting it in `failed`.

    Raises:
        InputError: A path does not exist, is neither file nor folder or has a name that is not UTF-8, a pattern is
            invalid, or a folder has no file that can be read.
    """
    found = Sources()
    given = _patterns(exclude, "--exclude")
    for path in paths:
        if not _is_utf8(path):
            raise InputError(_misnamed(path).reason, hint=_misnamed(path).hint)
        try:
            is_folder, is_file, is_there = path.is_dir(), path.is_file(), path.exists()
        except OSError as error:
            raise InputError(f"{path}: can't be read ({error.strerror})", hint="check the path") from error
        if is_folder:
            before = len(found.files)
            below = list(_below(path, given, found))
            if strict and found.failed:
                raise InputError(found.failed[0].reason, hint=found.failed[0].hint)
            if not below:
                skipped = f"; {found}" if found.skipped else ""
                raise InputError(f"{path}: no file in this folder can be read{skipped}", hint=f"these can: {_kinds()}")
            found.files[before:] = below
        elif not is_there:
            raise InputError(f"{path}: no such file", hint="check the path; it is relative to the current folder")
        elif not is_file:
            raise InputError(f"{path}: not a regular file", hint="give files and folders")
        else:
            found.files.append(path)
    found.files = list(dict.fromkeys(found.files))
    return found


def is_json_lines(path: Path) -> bool:
    """Whether a file has a passage a line; the others are documents."""
    return path.name.lower().endswith(JSON_LINES)


def _below(folder: Path, given: GitIgnoreSpec | None, found: Sources) -> Iterator[Path]:
    specs: dict[Path, GitIgnoreSpec] = {}
    skipped = found.skipped

    def unreadable(error: OSError) -> None:
        reason = f"{error.filename}: can't be read ({error.strerror})"
        found.failed.append(Unread(str(error.filename), reason, "check its permissions"))

    # Links to folders are not followed, so that a link to a folder above can't make a loop.
    for name, folders, names in os.walk(folder, onerror=unreadable):
        here = Path(name)
        if IGNORE_FILE in names and (spec := _ignored_by(here / IGNORE_FILE)):
            specs[here] = spec
        # The nearest file that says anything about a path decides.
        above = [(base, spec) for base, spec in reversed(specs.items()) if here.is_relative_to(base)]

        def excluded(path: Path, end: str = "", above: list[tuple[Path, GitIgnoreSpec]] = above) -> bool:
            if given is not None and given.match_file(path.relative_to(folder).as_posix() + end):
                return True
            said = (spec.check_file(path.relative_to(base).as_posix() + end).include for base, spec in above)
            return next((verdict for verdict in said if verdict is not None), False)

        kept = []
        for name in sorted(folders):
            if name.startswith("."):
                skipped["hidden"] += 1
            elif os.path.islink(here / name):  # noqa: PTH114 - no error where it may not be asked
                skipped["link to a folder"] += 1
            elif excluded(here / name, "/"):
                skipped["excluded folder"] += 1
            elif not _is_utf8(here / name):
                found.failed.append(_misnamed(here / name))
            else:
                kept.append(name)
        folders[:] = kept
        for name in sorted(names):
            path = here / name
            if name.startswith("."):
                skipped["hidden"] += name != IGNORE_FILE
            elif excluded(path):
                skipped["excluded"] += 1
            elif not name.lower().endswith((*JSON_LINES, *_suffixes())):
                skipped[_printable(path.suffix.lower()) or "without a suffix"] += 1
            elif not _is_utf8(path):
                found.failed.append(_misnamed(path))
            elif cause := _passed_over(path):
                skipped[cause] += 1
                found.passed.append(f"{path}: {cause}")
            else:
                yield path
    for cause in [cause for cause, count in skipped.items() if not count]:
        del skipped[cause]


def _passed_over(path: Path) -> str:
    """Why a file of a kind that is read is not; "" if it is."""
    try:
        if not path.is_file():
            return "broken link" if path.is_symlink() else "not a regular file"
        return "" if path.stat().st_size else "empty"
    except OSError:  # reading it says why
        return ""


def _is_utf8(path: Path) -> bool:
    return str(path).isascii() or _printable(str(path)) == str(path)


def _printable(name: str) -> str:
    """A name with escapes for what is not UTF-8."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _misnamed(path: Path) -> Unread:
    name = _printable(str(path))
    return Unread(name, f"{name}: its name is not UTF-8", "rename it, for example with convmv")


def _ignored_by(path: Path) -> GitIgnoreSpec | None:
    try:
        lines = path.read_text("utf-8-sig", errors="replace").splitlines()
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror})", hint="check its permissions") from error
    return _patterns(lines, str(path))


def _patterns(lines: Sequence[str], where: str) -> GitIgnoreSpec | None:
    if not lines:
        return None
    from pathspec import GitIgnoreSpec

    for number, line in enumerate(lines, start=1):
        try:
            GitIgnoreSpec.from_lines([line])
        except ValueError as error:
            at = where if where.startswith("--") else f"{where}, line {number}"
            raise InputError(f"{at}: not a pattern: {line!r} ({error})", hint="as in .gitignore") from None
    return GitIgnoreSpec.from_lines(lines)


def _suffixes() -> tuple[str, ...]:
    from stores.documents import SUFFIXES

    return SUFFIXES


def _kinds() -> str:
    return " ".join((*JSON_LINES, *_suffixes()))
