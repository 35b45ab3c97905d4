"""What the Office formats (docx, pptx, xlsx) have in common: encrypted, old and damaged files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inference.errors import InputError
from stores.readers.archives import check_archive, damaged
from stores.readers.encodings import OLE

_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")


@contextmanager
def opened(path: Path) -> Iterator[None]:
    """Check an Office file before it is read, and guard its reading.

    Raises:
        InputError: It is damaged, encrypted, a bomb, or of the old formats.
    """
    with path.open("rb") as file:
        head = file.read(8)
        if head == OLE:
            locked = _ENCRYPTED in head + file.read()
            if locked:
                raise InputError(f"{path}: protected by a password", hint="save it without one")
            message = f"{path}: a file of the old Office formats (.doc, .xls, .ppt)"
            raise InputError(message, hint=f"save it as {path.suffix.lower()}")
    check_archive(path)
    with guarded(path):
        yield


@contextmanager
def guarded(path: Path) -> Iterator[None]:
    """Turn what a reader raises on a damaged file into an error that names it."""
    try:
        yield
    except (ImportError, InputError, OSError, MemoryError):
        raise
    # On a damaged file, the reader may raise any exception.
    except Exception as error:
        raise damaged(path, error) from error
