"""Trains CompactRAG's sub-question rewriter (Sec. 3.2.3) and prints the tables of `training/README.md`.

python -m training.rewriter --data ../shared/data               train, and write inference/rewriter.npz
python -m training.rewriter --data ../shared/data --evaluate    what the shipped rewriter does (no torch)
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from inference.errors import InputError
from inference.heads import save_weights
from inference.rewriter import FORMS, Edit, rewrite_questions
from training.command import WEIGHTS, guarded, parser, written
from training.hop_data import normalised, rows_of, text_of
from training.measures import agreement, table

__all__ = ["REWRITERS", "Example", "evaluation_report", "examples", "gold_edit", "main", "training_examples"]

SHIPPED = WEIGHTS / "rewriter.npz"


@dataclass(frozen=True, slots=True)
class Example:
    """A sub-question, the answer it builds on, and how it reads with it."""

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
            complaint = f"{where}: field 'input' must be 'Q: ... | prev_answer: ...'"
            raise InputError(complaint, hint="see data/SOURCES.md")
        found.append(Example(parts[1].strip(), parts[2].strip(), text_of(row, "output", where).strip()))
    return found


def gold_edit(example: Example) -> Edit | None:
    """The edit that makes the sub-question what it is rewritten to; None where no single edit does."""
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
    """Examples to train on: those that a single edit makes; and how many of the file were left out, and why.

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


_PRONOUN = re.compile(
    r"\b((?P<whose>his|its|their|her(?= [a-z]))|he|she|it|they|him|her|them|(this|these|those) [a-z]+)\b", re.IGNORECASE
)


def _pronoun_replaced(example: Example) -> str:
    """The first pronoun, or "this" with a word after it, replaced; appended where there is none."""
    found = _PRONOUN.search(example.question)
    if not found:
        return _appended(example)
    ending = "'s" if found["whose"] else ""
    return example.question[: found.start()] + example.answer + ending + example.question[found.end() :]


def _appended(example: Example) -> str:
    return f"{example.question} {example.answer}"


def _best_possible(example: Example) -> str:
    edit = gold_edit(example)
    return edit.applied(example.question, example.answer) if edit else example.question


def _ours(example: Example) -> str:
    return rewrite_questions([(example.question, example.answer)])[0]


REWRITERS: dict[str, Callable[[Example], str]] = {
    "sub-question as it is": lambda example: example.question,
    "answer appended": _appended,
    'first pronoun or "this ..." replaced (a pattern)': _pronoun_replaced,
    "the right single edit, where there is one": _best_possible,
    "**this rewriter**": _ours,
}


def evaluation_report(rows: Sequence[Example]) -> str:
    """Markdown: exact match, F1 and kept answers of the shipped rewriter and of simpler ones, and its speed."""
    single = np.array([gold_edit(row) is not None for row in rows], bool)
    lines: list[list[object]] = []
    milliseconds = 0.0
    for name, rewrite in REWRITERS.items():
        start = time.process_time()
        said = [rewrite(row) for row in rows]
        milliseconds = 1000 * (time.process_time() - start) / len(rows)
        pairs = list(zip(said, rows, strict=True))
        found = [
            (one == row.rewritten, *agreement(one, row.rewritten), row.answer.lower() in one.lower())
            for one, row in pairs
        ]
        figures = np.array(found, float)
        lines.append([name, "all", len(rows), *figures.mean(axis=0).tolist()])
        if rewrite is _ours and single.any():
            lines.append([name, "of a single edit", int(single.sum()), *figures[single].mean(axis=0).tolist()])
    titles = ["rewriter", "rows", "number", "same to the letter", "exact match", "F1", "holds the answer"]
    return f"{table(titles, lines)}\n\n{milliseconds:.1f} ms of CPU time a sub-question\n"


def _train(data: Path, to: Path, epochs: float | None) -> str:
    from training.rewriter_model import SCHEDULE, train

    rows, left_out = training_examples(data)
    start = time.perf_counter()
    save_weights(to, train(rows, replace(SCHEDULE, epochs=epochs) if epochs else SCHEDULE))
    dropped = ", ".join(f"{count} {why}" for why, count in left_out.items()) or "none"
    return written(to, f"{len(rows)} examples (rows left out: {dropped})", time.perf_counter() - start)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; gives the exit code."""
    options = parser("rewriter", "Train the sub-question rewriter.", SHIPPED)
    options.add_argument("--evaluate", action="store_true", help="print what the shipped one does; trains nothing")
    chosen = options.parse_args(arguments)

    def report() -> str:
        if chosen.evaluate:
            return evaluation_report(examples(chosen.data / "train" / "rewriter.valid.jsonl.gz"))
        return _train(chosen.data, chosen.to, chosen.epochs)

    return guarded(report)


if __name__ == "__main__":
    sys.exit(main())
