"""Questions with their hop counts: training and evaluation data of the hop predictor.

They never share a question: `held_out` has the normalised questions excluded from training.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from training.rows import dev_questions, malformed, rows_of, text_of
from training.words import normalised


@dataclass(frozen=True, slots=True)
class Labelled:
    """A question and the hops it needs."""

    question: str
    hops: int
    """1 to 4."""
    source: str


def training_rows(data: Path) -> tuple[list[Labelled], Counter[str]]:
    """Training rows, without duplicates, and the number of held-out or duplicate rows excluded from each file.

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
    """Normalised questions excluded from training: validation file, all dev questions, all dev sub-questions."""
    valid = _hop_counts(data / "train" / "hop_count.valid.jsonl.gz")
    return {normalised(row.question) for row in valid} | dev_questions(data)


def _natural_sub_questions(path: Path) -> list[str]:
    """Self-contained sub-questions (no `#1`, no `subject >> relation`), without duplicates, in order."""
    asked = (part["question"] for _, row in rows_of(path) for part in row.get("decomposition", ()))
    return list(dict.fromkeys(question for question in asked if "#" not in question and ">>" not in question))


def _hop_counts(path: Path, source: str = "source") -> Iterator[Labelled]:
    for where, row in rows_of(path):
        hops = row.get("hops")
        if hops not in (1, 2, 3, 4):
            raise malformed(where, f"field 'hops' must be 1, 2, 3 or 4, not {hops!r}")
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
