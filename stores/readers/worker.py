"""The process in which `IsolatedParser` has files parsed.

A request is a line of JSON on standard input, `{"path", "out"}`. The title with the metadata, and the sections, are
written to the file `out`, one JSON value a line. The reply on standard output is `{"error", "hint", "warnings"}`. An
empty line says that the process is ready. Out of memory it exits with `OUT_OF_MEMORY`: even a reply may need too much.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

from inference.errors import InputError
from stores.documents import parse_document
from stores.readers.isolated import OUT_OF_MEMORY
from stores.readers.sections import Section

MOST_TEXT = 1_000_000_000
"""Characters of a file's text: column names are repeated in each row."""


def main(memory: int) -> None:
    """Parse files until standard input ends.

    Args:
        memory: Bytes of address space that this process may have.
    """
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    warnings = _Warnings()
    logging.getLogger().addHandler(warnings)
    print(file=replies, flush=True)
    for request in sys.stdin:
        try:
            asked = json.loads(request)
            reply = _parse(Path(asked["path"]), Path(asked["out"]))
            print(json.dumps(reply | {"warnings": warnings.taken()}), file=replies, flush=True)
        except MemoryError:
            os._exit(OUT_OF_MEMORY)


class _Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep our own messages; those of libraries are about what they repaired."""
        if record.name.startswith("stores"):
            self._messages.append(record.getMessage())

    def taken(self) -> list[str]:
        """The messages since the last call."""
        messages, self._messages = self._messages, []
        return messages


def _parse(path: Path, out: Path) -> dict[str, Any]:
    try:
        parsed = parse_document(path)
        with out.open("w", encoding="utf-8", errors="surrogatepass") as file:
            print(json.dumps([parsed.title, dict(parsed.metadata)]), file=file)
            written = 0
            for section in parsed.sections:
                written += file.write(json.dumps(_row(section)) + "\n")
                if written > MOST_TEXT:
                    message = f"{path}: more than {MOST_TEXT / 1e6:,.0f} MB of text, too much to be a document"
                    raise InputError(message, hint="leave it out, or split it")
    except InputError as error:
        return _reply(error.message, error.hint)
    except RecursionError:
        return _reply(f"{path}: is nested too deeply", "leave it out, or split it")
    except MemoryError:
        raise
    # On a damaged file, a reader may raise any exception.
    except Exception as error:
        about = f"{type(error).__name__}: {error}"[:200]
        return _reply(f"{path}: damaged, or not a {path.suffix.lower()} file ({about})", "save it again")
    return _reply()


def _reply(error: str = "", hint: str = "") -> dict[str, Any]:
    return {"error": error, "hint": hint}


def _row(section: Section) -> list[Any]:
    parts = [[part.text, part.page, part.row] for part in section.parts]
    return [section.heading, parts, section.headings, section.unit, dict(section.metadata)]
