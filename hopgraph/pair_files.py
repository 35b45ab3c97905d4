"""Knowledge bases as files: a base that one model has read can be passed on and used where that model is not."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from inference.encoders.configured import get_encoder
from inference.errors import InputError
from inference.structured import well_formed
from nodes.compactrag.verbatim_checker import verbatim
from nodes.kit.rendering import plain
from stores.index import open_index
from stores.knowledge_base import open_pairs, writing
from stores.passages import Passage, content_id
from stores.readings import Pair, Reading, pair_text

__all__ = ["Imported", "export_pairs", "import_pairs"]

_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "dict[str, int]": (dict,),
    "dict[str, str]": (dict,),
}
"""Types of a reading's fields."""
_FORMAT = "give a file that `hopgraph read --index INDEX --export FILE` wrote, one passage's reading a line"


@dataclass(frozen=True)
class Imported:
    """What was taken over."""

    readings: int
    skipped: int
    """Passages that the index does not have, or has with another text."""


def export_pairs(name: str, path: Path) -> None:
    """Write the knowledge base of an index as JSON Lines, a passage a line, by passage id.

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
    """Take over the readings of a file that `export_pairs` wrote; what has been read already stays as it is.

    Whether an answer stands in its passage is looked up anew.

    Raises:
        StoreError: There is no such index, or another process is reading it.
        InputError: The file can't be read, or a line is not such a reading; the message names file, line and field.
    """
    index, encoder = open_index(name), get_encoder()
    rows = list(_rows(path))
    passages = {passage.id: passage for chunk in index.passages() for passage in chunk}
    taken = skipped = 0
    with writing(index) as base:
        base.rebase(index, encoder)
        done = base.done()
        for reading, rows_of_pairs in rows:
            passage = passages.get(reading.passage)
            if passage is None or reading.content != content_id(passage.title, passage.text):
                skipped += 1
            elif reading.passage not in done:
                pairs = _pairs(passage, rows_of_pairs)
                base.add(reading, pairs, encoder.encode_passages([pair_text(pair) for pair in pairs]))
                taken += 1
    return Imported(taken, skipped)


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


def _rows(path: Path) -> list[tuple[Reading, list[dict[str, Any]]]]:
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


def _row(line: str, where: str) -> tuple[Reading, list[dict[str, Any]]]:
    try:
        row = well_formed(json.loads(line))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({error})", hint=_FORMAT) from None
    if not isinstance(row, dict):
        raise InputError(f"{where}: expected an object", hint=_FORMAT)
    if "pairs" not in row:
        passages = "these are passages: `hopgraph index` takes them, `hopgraph read` then makes pairs of them"
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
