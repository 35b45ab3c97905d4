"""Trains CompactRAG's sub-question rewriter (Sec. 3.2.3) and prints the tables of `training/README.md`.

python -m training.rewriter --data ../shared/data               train, and write inference/heads/rewriter.npz
python -m training.rewriter --data ../shared/data --evaluate    measure the shipped rewriter (no torch)
"""

from __future__ import annotations

import re
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence

import numpy as np

from inference.heads.rewriter import rewrite_questions
from training.command import guarded, trained, trainer
from training.measures import agreement, table
from training.rewriter_data import Example, examples, gold_edit, training_examples

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
    titles = ["rewriter", "rows", "number", "identical", "exact match", "F1", "contains the answer"]
    return f"{table(titles, lines)}\n\n{milliseconds:.1f} ms of CPU time per sub-question\n"


def _train(options: Namespace) -> str:
    from training.rewriter_model import SCHEDULE, train

    rows, left_out = training_examples(options.data)
    dropped = ", ".join(f"{count} {why}" for why, count in left_out.items()) or "none"
    described = f"{len(rows)} examples (rows left out: {dropped})"
    return trained(options, described, lambda schedule: train(rows, schedule), SCHEDULE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit code."""
    parser, _ = trainer("rewriter", "Train the sub-question rewriter.", "rewriter.npz")
    options = parser.parse_args(arguments)

    def work() -> str:
        if options.evaluate:
            return evaluation_report(examples(options.data / "train" / "rewriter.valid.jsonl.gz"))
        return _train(options)

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())
