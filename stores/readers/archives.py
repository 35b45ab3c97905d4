"""Checks of zip archives (docx, pptx, xlsx, epub) before they are read: protected ones, bombs and damage."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

from inference.errors import InputError

MOST_INFLATED = 400_000_000
"""Bytes that an archive may have when inflated."""
MOST_ENTRIES = 20_000
_PIECE = 1 << 20
_DTD = b"<!DOCTYPE"
_HEAD = 64 * 1024


def check_archive(path: Path, *, dtd: bool = False) -> None:
    """Check an archive's declared sizes, and inflate it once, a piece at a time.

    Args:
        path: The archive.
        dtd: Whether its XML may have document types. Those of Office files have none; entities are declared in them.

    Raises:
        InputError: It is damaged, protected by a password, larger than `MOST_INFLATED`, or declares XML entities.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            declared = sum(entry.file_size for entry in entries)
            if len(entries) > MOST_ENTRIES:
                raise _bomb(path, f"an archive of {len(entries):,} files")
            if declared > MOST_INFLATED:
                raise _bomb(path, f"inflates to {declared / 1e6:,.0f} MB")
            if any(entry.flag_bits & 1 for entry in entries):
                raise InputError(f"{path}: protected by a password", hint="save it without one")
            total = 0
            for entry in entries:
                total = _inflate(path, archive, entry, total, dtd)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
        raise damaged(path, error) from error


def _inflate(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, total: int, dtd: bool) -> int:
    """Read an entry to its end, which also checks its CRC; returns the bytes read so far."""
    head = b""
    with archive.open(entry) as file:
        while piece := file.read(_PIECE):
            head = head or piece[:_HEAD]
            total += len(piece)
            if total > MOST_INFLATED:
                raise _bomb(path, f"inflates to more than {MOST_INFLATED / 1e6:,.0f} MB")
    xml = entry.filename.lower().endswith((".xml", ".rels"))
    # In UTF-16, too.
    if xml and not dtd and _DTD in head.replace(b"\0", b"").upper():
        message = f"{path}: its {entry.filename} declares XML entities, which no real one does"
        raise InputError(message, hint="leave it out: it may be an attack")
    return total


def damaged(path: Path, error: Exception) -> InputError:
    """The error for an archive that can't be read."""
    about = str(error) or type(error).__name__
    return InputError(f"{path}: damaged, or not a {path.suffix.lower()} file ({about[:200]})", hint="save it again")


def _bomb(path: Path, what: str) -> InputError:
    return InputError(f"{path}: {what}, too much to be a document", hint="leave it out, or split it")
