"""CompactRAG's training data for the sub-question rewriter, with the edit from input to output."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from inference.heads.rewriter import FORMS, Edit
from training.rows import malformed, rows_of, text_of
from training.words import normalised


@dataclass(frozen=True, slots=True)
class Example:
    """A sub-question, the answer it depends on, and the rewritten sub-question."""

    question: str
    answer: str
    rewritten: str


_INPUT = re.compile(r"Q: (.*) \| prev_answer: (.*)", re.DOTALL)


def examples(path: Path) -> list[Example]:
    """Rows of a file of CompactRAG's training data.

    Raises:
        InputError: The file is missing or malformed.
    """
    found = []
    for where, row in rows_of(path):
        parts = _INPUT.fullmatch(text_of(row, "input", where))
        if not parts:
            raise malformed(where, "field 'input' must be 'Q: ... | prev_answer: ...'")
        found.append(Example(parts[1].strip(), parts[2].strip(), text_of(row, "output", where).strip()))
    return found


def gold_edit(example: Example) -> Edit | None:
    """The single edit from the sub-question to its rewriting; None if there is none."""
    question, answer, rewritten = example.question, example.answer, example.rewritten
    edits = []
    for found in re.finditer(re.escape(answer), rewritten, re.IGNORECASE):
        for form, (before, after) in enumerate(FORMS):
            start, kept = found.start() - len(before), len(rewritten) - found.end() - len(after)
            end = len(question) - kept
            if (
                0 <= start < end
                and rewritten[:start] == question[:start]
                and rewritten[start : found.start()] == before
                and rewritten[found.end() : found.end() + len(after)] == after
                and question[end:] == rewritten[found.end() + len(after) :]
                and _whole_words(question, start, end)
            ):
                edits.append(Edit(start, end, form))
    # Of "the director" all is replaced, by "the ..." if need be: else an article would be kept or not by chance. All
    # else that stays is kept.
    return min(edits, key=lambda edit: (FORMS[edit.form][0] != "the ", edit.form), default=None)


def _whole_words(question: str, start: int, end: int) -> bool:
    return not re.match(r"\w\w", question[max(start - 1, 0) : start + 1] if start else "") and not re.match(
        r"\w\w", question[end - 1 : end + 1]
    )


def training_examples(data: Path) -> tuple[list[Example], Counter[str]]:
    """Training examples that a single edit explains, and the numbers of excluded rows by cause.

    Raises:
        InputError: The file is missing or malformed.
    """
    measured = {_key(example) for example in examples(data / "train" / "rewriter.valid.jsonl.gz")}
    kept, left_out = [], Counter[str]()
    for example in examples(data / "train" / "rewriter.train.jsonl.gz"):
        if _key(example) in measured:
            left_out["in the validation file"] += 1
        elif not gold_edit(example):
            left_out["that no single edit makes"] += 1
        else:
            kept.append(example)
    return kept, left_out


def _key(example: Example) -> str:
    return normalised(f"{example.question} {example.answer}")
