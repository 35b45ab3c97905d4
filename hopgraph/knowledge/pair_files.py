"""Export and import of knowledge bases as JSON Lines."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from inference.encoders.configured import get_encoder
from inference.errors import InputError, StoreError
from inference.structured import well_formed
from nodes.compactrag.verbatim_checker import verbatim
from nodes.kit.rendering import counted, plain
from stores.index import Index, list_indexes, open_index
from stores.knowledge_base import open_pairs, writing
from stores.passages import Passage, content_id
from stores.readings import Pair, Reading, pair_text

_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "dict[str, int]": (dict,),
    "dict[str, str]": (dict,),
}
"""Types of a reading's fields."""
_Row = tuple[Reading, list[dict[str, Any]]]
_FORMAT = "give a file that `hopgraph read --index INDEX --export FILE` wrote, one passage's reading per line"


@dataclass(frozen=True)
class Imported:
    """Counts of an import."""

    readings: int
    skipped: int
    """Passages that the index does not have, or has with another text."""
    total: int
    """Readings in the file; those neither imported nor skipped were already present."""


def export_pairs(name: str, path: Path) -> None:
    """Write the knowledge base of an index as JSON Lines, one passage per line, sorted by passage id.

    Raises:
        StoreError: There is no such index or base.
        InputError: The file can't be written.
    """
    base = open_pairs(open_index(name))
    pairs: dict[str, list[dict[str, Any]]] = {}
    for pair in base.all_pairs():
        row = {"question": pair.question, "answer": pair.answer, "verbatim": pair.verbatim, "coverage": pair.coverage}
        pairs.setdefault(pair.passage, []).append(row)
    rows = [{**asdict(reading), "pairs": pairs.get(reading.passage, [])} for reading in base.readings()]
    try:
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: can't be written ({error.strerror or error})") from error


def import_pairs(name: str, path: Path) -> Imported:
    """Import the readings of a file from `export_pairs`; passages already read stay unchanged.

    The `verbatim` flag of answers is recomputed.

    Raises:
        StoreError: There is no such index, or another process is reading it.
        InputError: The file can't be read, a line is malformed (the message names file, line and field), or no reading
            is of a passage of this index; then nothing is changed.
    """
    index, encoder = open_index(name), get_encoder()
    rows = list(_rows(path))
    passages = _read_from(index, rows)
    if not passages:
        raise _of_another_index(path, index, rows)
    taken = skipped = 0
    with writing(index) as base:
        base.rebase(index, encoder)
        done = base.done()
        for reading, rows_of_pairs in rows:
            passage = passages.get((reading.passage, reading.content))
            if passage is None:
                skipped += 1
            elif reading.passage not in done:
                pairs = _pairs(passage, rows_of_pairs)
                base.add(reading, pairs, encoder.encode_passages([pair_text(pair) for pair in pairs]))
                taken += 1
    return Imported(taken, skipped, len(rows))


def _read_from(index: Index, rows: Sequence[_Row]) -> dict[tuple[str, str], Passage]:
    """The passages of an index that were read, by id and content."""
    wanted = {(reading.passage, reading.content) for reading, _ in rows}
    ids = {passage for passage, _ in wanted}
    keys = (
        ((passage.id, content_id(passage.title, passage.text)), passage)
        for chunk in index.passages()
        for passage in chunk
        if passage.id in ids
    )
    return {key: passage for key, passage in keys if key in wanted}


def _of_another_index(path: Path, index: Index, rows: Sequence[_Row]) -> InputError:
    """The error for a file without readings of an index; its hint names the index they belong to."""
    count = counted(len(rows), "reading")
    message = f"{path}: none of its {count} is of a passage of index {index.name!r}"
    if changed := len(index.known([reading.passage for reading, _ in rows])):
        message += f" as it is now: the text of {changed:,} passages differs"
    found: dict[str, int] = {}
    for other in list_indexes():
        with suppress(StoreError):  # an index that can't be opened is skipped
            found[other] = len(_read_from(open_index(other), rows))
    best = max(found, key=lambda name: found[name], default="")
    if best and found[best]:
        command = f"hopgraph read --index {best} --import {shlex.quote(str(path))}"
        hint = f"{found[best]:,} of them belong to index {best!r}: `{command}`"
    else:
        hint = "no index has these passages: index the documents they come from"
    return InputError(message, hint=f"{hint}. Nothing was changed")


def _pairs(passage: Passage, rows: list[dict[str, Any]]) -> list[Pair]:
    texts = [plain(passage.text), plain(passage.title)]
    return [
        Pair(
            passage.id,
            number,
            plain(row["question"]),
            plain(row["answer"]),
            verbatim=verbatim(row["answer"], texts) is not None,
            coverage=bool(row.get("coverage")),
        )
        for number, row in enumerate(rows, start=1)
    ]


def _rows(path: Path) -> list[_Row]:
    try:
        # Not splitlines(): texts may hold line separators such as U+2028.
        lines = path.read_text("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start:,})", hint=_FORMAT) from None
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", hint="check the path; it is relative to the current folder") from None
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror})", hint="give a file that can be read") from None
    if not any(line.strip() for line in lines):
        raise InputError(f"{path}: the file is empty", hint=_FORMAT)
    return [_row(line, f"{path}, line {number}") for number, line in enumerate(lines, start=1) if line.strip()]


def _row(line: str, where: str) -> _Row:
    try:
        row = well_formed(json.loads(line))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({error})", hint=_FORMAT) from None
    if not isinstance(row, dict):
        raise InputError(f"{where}: expected an object", hint=_FORMAT)
    if "pairs" not in row:
        passages = "these are passages: index them with `hopgraph index`, then extract pairs with `hopgraph read`"
        raise InputError(f"{where}: field 'pairs' is missing", hint=passages if "text" in row else _FORMAT)
    pairs = row.pop("pairs")
    if not isinstance(pairs, list) or not all(
        isinstance(pair, dict) and all(isinstance(pair.get(side), str) for side in ("question", "answer"))
        for pair in pairs
    ):
        raise InputError(f"{where}: field 'pairs' must be a list of objects with question and answer", hint=_FORMAT)
    for known in fields(Reading):
        value = row.get(known.name)
        if known.name not in row and known.name not in ("passage", "content"):
            continue
        if not isinstance(value, _KINDS[str(known.type)]) or isinstance(value, bool):
            raise InputError(f"{where}: field '{known.name}' must be of type {known.type}", hint=_FORMAT)
    if unknown := set(row) - {known.name for known in fields(Reading)}:
        raise InputError(f"{where}: unknown field '{min(unknown)}'", hint=_FORMAT)
    return Reading(**row), pairs
