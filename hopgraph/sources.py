"""Input files of a command: named files, and all readable files below named folders."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as with_values
from pathlib import Path

from inference.errors import InputError
from stores.collect import Located
from stores.passages import read_numbered

_JSON_LINES = (".jsonl", ".jsonl.gz")


@dataclass
class Sources:
    """Files to read, in order, and the files skipped in folders."""

    files: list[Path] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    """How many files of a folder are not read, by suffix or by cause."""

    def __str__(self) -> str:
        found = f"read {len(self.files):,} file{'' if len(self.files) == 1 else 's'}"
        if not self.skipped:
            return found
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.skipped.most_common())
        return f"{found}, skipped {self.skipped.total():,} ({kinds})"


def find_sources(paths: Sequence[Path]) -> Sources:
    """The files named, and those below the folders named, sorted; each once.

    In folders, hidden entries, empty files, links to folders and files of other kinds are skipped and counted.

    Raises:
        InputError: A path does not exist, or a folder has no file that can be read.
    """
    found = Sources()
    for path in paths:
        if path.is_dir():
            before = len(found.files)
            below = list(_below(path, found.skipped))
            if not below:
                skipped = f"; {found}" if found.skipped else ""
                raise InputError(f"{path}: no file in this folder can be read{skipped}", hint=f"these can: {_kinds()}")
            found.files[before:] = below
        elif not path.exists():
            raise InputError(f"{path}: no such file", hint="check the path; it is relative to the current folder")
        else:
            found.files.append(path)
    found.files = list(dict.fromkeys(found.files))
    return found


def read_sources(files: Sequence[Path]) -> Iterator[Located]:
    """All passages of files, each with its place and its file.

    Raises:
        InputError: A file can't be read; the message names it, and the line where there is one.
    """
    for path in files:
        yield from read_source(path, str(path))


def read_source(path: Path, name: str) -> Iterator[Located]:
    """All passages of a file, which is named otherwise in them. Errors as for `read_sources`."""
    if is_json_lines(path):
        for line, passage in read_numbered(path):
            yield Located(f"{name}, line {line}", with_values(passage, file=name))
    else:
        from stores.documents import load_documents

        for number, passage in enumerate(load_documents(path, name=name), start=1):
            yield Located(f"{name}, passage {number}", with_values(passage, file=name))


def is_json_lines(path: Path) -> bool:
    """Whether a file has a passage a line; the others are documents."""
    return path.name.lower().endswith(_JSON_LINES)


def _below(folder: Path, skipped: Counter[str]) -> Iterator[Path]:
    # Links to folders are not followed, so that a link to a folder above can't make a loop.
    for here, folders, names in os.walk(folder, onerror=_unreadable):
        skipped["hidden"] += sum(name.startswith(".") for name in [*folders, *names])
        links = [name for name in folders if not name.startswith(".") and (Path(here) / name).is_symlink()]
        skipped["link to a folder"] += len(links)
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in links)
        for name in sorted(name for name in names if not name.startswith(".")):
            path = Path(here) / name
            if cause := _passed_over(path):
                skipped[cause] += 1
            else:
                yield path
    for cause in [cause for cause, count in skipped.items() if not count]:
        del skipped[cause]


def _passed_over(path: Path) -> str:
    """Why a file of a folder is not read; "" if it is."""
    from stores.documents import SUFFIXES

    if not path.name.lower().endswith((*_JSON_LINES, *SUFFIXES)):
        return path.suffix.lower() or "without a suffix"
    if not path.is_file():
        return "not a regular file"
    return "" if path.stat().st_size else "empty"


def _kinds() -> str:
    from stores.documents import SUFFIXES

    return " ".join((*_JSON_LINES, *SUFFIXES))


def _unreadable(error: OSError) -> None:
    raise InputError(f"{error.filename}: can't be read ({error.strerror})", hint="check its permissions") from error
