"""Plain text, read in pieces: a file may be larger than memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from stores.readers.encodings import find_encoding
from stores.readers.sections import Parsed, Section, plain_section

PIECE = 1_000_000
"""Characters of a section: a longer file is several, cut between paragraphs, or else between lines or words."""
_CUTS = [re.compile(r"\n[^\S\n]*\n"), re.compile(r"\n"), re.compile(r"\s")]


def read_text(path: Path) -> Parsed:
    """A text file."""
    return Parsed("", _sections(path, find_encoding(path)))


def _sections(path: Path, encoding: str) -> Iterator[Section]:
    rest = ""
    with path.open(encoding=encoding) as file:
        while piece := file.read(PIECE - len(rest)):
            rest += piece
            if len(rest) < PIECE:
                continue  # the end of the file
            cut = _cut(rest)
            yield plain_section(rest[:cut])
            rest = rest[cut:]
    if rest:
        yield plain_section(rest)


def _cut(text: str) -> int:
    """Where to cut, in the second half of a text."""
    for kind in _CUTS:
        if found := [match.end() for match in kind.finditer(text, len(text) // 2)]:
            return found[-1]
    return len(text)
