"""Questions with their hop counts: what the hop predictor is trained on, and what it is measured on.

The two never share a question: `held_out` lists what may not be trained on, as `normalised` writes it.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference.errors import InputError

__all__ = [
    "Labelled",
    "dev_questions",
    "evaluation_sets",
    "held_out",
    "normalised",
    "rows_of",
    "text_of",
    "training_rows",
]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A question and the hops it needs."""

    question: str
    hops: int
    """1 to 4."""
    source: str


def training_rows(data: Path) -> tuple[list[Labelled], Counter[str]]:
    """Rows to train on, each question once, and how many rows of each file were left out as held out or repeated.

    - `hop_count.train`: as it is.
    - `extractor.train`: CompactRAG's resolved sub-questions, written by a model for training questions of MuSiQue,
      HotpotQA and 2WikiMultiHopQA: one hop, about the same things as questions of more hops, which the one-hop rows
      of `hop_count` are not.
    - `router.train`: training questions of HotpotQA and 2WikiMultiHopQA (R1-Searcher's selection): two hops, or four
      where two films are compared by their directors (2WikiMultiHopQA's `bridge_comparison`).

    Args:
        data: Folder that holds `train/` and a folder for each data set.

    Raises:
        InputError: A file is missing or malformed.
    """
    seen, left_out, rows = held_out(data), Counter[str](), []
    for name, found in (
        ("hop_count.train", _hop_counts(data / "train" / "hop_count.train.jsonl.gz")),
        ("extractor.train", _sub_questions(data / "train" / "extractor.train.jsonl.gz")),
        ("router.train", _two_hops(data / "train" / "router.train.jsonl.gz")),
    ):
        for row in found:
            key = normalised(row.question)
            left_out[name] += key in seen
            if key not in seen:
                seen.add(key)
                rows.append(row)
    return rows, left_out


def evaluation_sets(data: Path) -> dict[str, list[Labelled]]:
    """The validation file, and dev questions: within MuSiQue alone (with one-hop rows), 2WikiMultiHopQA, HotpotQA.

    Raises:
        InputError: A file is missing or malformed.
    """
    sets = {"validation": list(_hop_counts(data / "train" / "hop_count.valid.jsonl.gz"))}
    for name in ("musique", "2wikimultihopqa", "hotpotqa"):
        path = data / name / "questions.jsonl.gz"
        sets[name] = list(_hop_counts(path, source="type"))
        if name == "musique":
            sets[name] += [Labelled(question, 1, "sub-question") for question in _natural_sub_questions(path)]
    return sets


def held_out(data: Path) -> set[str]:
    """Normalised questions that may not be trained on: validation file, all dev questions, all dev sub-questions."""
    valid = _hop_counts(data / "train" / "hop_count.valid.jsonl.gz")
    return {normalised(row.question) for row in valid} | dev_questions(data)


def dev_questions(data: Path) -> set[str]:
    """Normalised dev questions of all data sets, and the sub-questions of their decompositions."""
    found = set()
    for path in sorted(data.glob("*/questions.jsonl.gz")):
        for where, row in rows_of(path):
            found.add(normalised(text_of(row, "question", where)))
            for part in row.get("decomposition", ()):
                found.add(normalised(part["question"] if isinstance(part, dict) else str(part)))
    return found


def normalised(question: str) -> str:
    """A question without case, punctuation and repeated white space: two that agree in this are taken for the same."""
    return " ".join(re.sub(r"[^\w\s]", " ", question.lower()).split())


def _natural_sub_questions(path: Path) -> list[str]:
    """Sub-questions that can stand alone: no `#1`, no `subject >> relation`. Each once, in order of appearance."""
    asked = (part["question"] for _, row in rows_of(path) for part in row.get("decomposition", ()))
    return list(dict.fromkeys(question for question in asked if "#" not in question and ">>" not in question))


def _hop_counts(path: Path, source: str = "source") -> Iterator[Labelled]:
    for where, row in rows_of(path):
        hops = row.get("hops")
        if hops not in (1, 2, 3, 4):
            raise InputError(f"{where}: field 'hops' must be 1, 2, 3 or 4, not {hops!r}", hint="see data/SOURCES.md")
        yield Labelled(text_of(row, "question", where), hops, str(row.get(source, "")))


def _sub_questions(path: Path) -> Iterator[Labelled]:
    for where, row in rows_of(path):
        yield Labelled(text_of(row, "question", where), 1, "compactrag-extractor")


_COMPARISON = re.compile(r"(which film (has|whose)|(are|do|did|were|is) (both|(the )?(directors?|films?|movies?)))\b")


def _two_hops(path: Path) -> Iterator[Labelled]:
    for where, row in rows_of(path):
        if "R1-Searcher" in str(row.get("source", "")):
            question = text_of(row, "question", where)
            directors = "director" in question.lower() and _COMPARISON.match(question.lower())
            yield Labelled(question, 4 if directors else 2, "hotpot+2wiki-train")


def rows_of(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Objects of a JSON Lines file, gzipped or plain, each with its place for error messages.

    Raises:
        InputError: It is missing or malformed.
    """
    number = 0
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise InputError(f"{path}, line {number}: expected an object", hint="see data/SOURCES.md")
                yield f"{path}, line {number}", row
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", hint="give the data folder, such as DATA=../shared/data") from None
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise InputError(f"{path}: damaged after line {number} ({error})", hint="fetch the file again") from error


def text_of(row: Mapping[str, Any], field: str, where: str) -> str:
    """The text of a field.

    Raises:
        InputError: It is missing, blank or no text.
    """
    value = row.get(field)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{where}: field '{field}' must be a text", hint="see data/SOURCES.md")
    return value
