"""Trains CompactRAG's answer extractor (Sec. 3.2.2) and prints the tables of `training/README.md`.

python -m training.extractor --data ../shared/data               train, and write inference/heads/extractor.npz
python -m training.extractor --data ../shared/data --evaluate    what the shipped extractor does (no torch)
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from inference.heads.extractor import extract_answers
from inference.heads.npz import load_weights
from training.command import guarded, trained, trainer
from training.extractor_cases import apart, reversed_pair, training_cases, without_answer
from training.extractor_data import Example, examples, phrase, shortened, training_examples
from training.measures import agreement, table


def _closest_pair(question: str, context: str) -> tuple[str, str]:
    """The pair whose question shares most words with the one asked."""
    pairs = [(asked, said) for asked, _, said in (block.partition("\n") for block in context.split("\n\n"))]
    return max(pairs, key=lambda pair: agreement(pair[0], question)[1])


def _right_line(row: Example) -> str:
    """The whole answer of the pair that holds the right words."""
    if row.start < 0:
        return ""
    return row.context[: row.start].rpartition("\n")[2] + row.context[row.start :].partition("\n")[0]


def _ours(row: Example) -> str:
    return extract_answers([(row.question, row.context)])[0].answer


EXTRACTORS: dict[str, Callable[[Example], str]] = {
    "first pair's answer": lambda row: row.context.partition("\n\n")[0].partition("\n")[2],
    "answer of the pair with the closest question": lambda row: _closest_pair(row.question, row.context)[1],
    "of that answer, the longest run of words not in the question": lambda row: phrase(
        f"{row.question} {_closest_pair(row.question, row.context)[0]}", _closest_pair(row.question, row.context)[1]
    ),
    "the right pair's whole answer (oracle pair)": _right_line,
    "**this extractor**": _ours,
}


def evaluation_report(rows: Sequence[Example], seen: set[str]) -> str:
    """Markdown: exact match and F1 of the shipped extractor and of simpler ones, and its speed.

    Args:
        rows: What to measure on.
        seen: Pairs that were trained on, to measure rows without any of them apart.
    """
    unseen = np.array([not seen & set(row.context.split("\n\n")) for row in rows], bool)
    sets = {"sentences": list(rows), "phrases": [shortened(row) for row in rows if row.start >= 0]}
    lines: list[list[object]] = []
    speed = []
    for form, chosen in sets.items():
        for name, extract in EXTRACTORS.items():
            start = time.process_time()
            scores = np.array([agreement(extract(row), row.answer) for row in chosen])
            lines.append([name, form, len(chosen), *scores.mean(axis=0).tolist()])
            if extract is _ours:
                milliseconds = 1000 * (time.process_time() - start) / len(chosen)
                speed.append(f"{milliseconds:.1f} ms of CPU time per question where answers are {form}")
                if form == "sentences" and unseen.any():
                    of_them = scores[unseen].mean(axis=0).tolist()
                    lines.append([f"{name}, no pair seen in training", form, int(unseen.sum()), *of_them])
    titles = ["extractor", "answers are", "rows", "exact match", "F1"]
    return f"{table(titles, lines)}\n\n{_cases_report(sets)}\n\n{'; '.join(speed)}\n"


def _cases_report(sets: Mapping[str, Sequence[Example]]) -> str:
    """What is answered of pairs without the answer, and the answers of pairs that ask the other way round."""
    lines: list[list[object]] = []
    for form, rows in sets.items():
        bare = [row for row in map(without_answer, (row for row in rows if row.start >= 0)) if row.context]
        said = np.array([bool(_ours(row)) for row in bare], float)
        lines.append(["the right pair removed", form, len(bare), said.mean() if bare else "-", "-"])
    turned = [row for row in map(reversed_pair, (row for row in sets["sentences"] if row.start >= 0)) if row]
    right = np.array([agreement(_ours(row), row.answer)[0] for row in turned])
    lines.append(["the right pair inverted", "phrases", len(turned), "-", right.mean() if turned else "-"])
    return table(["pairs", "answers are", "rows", "answered", "exact match"], lines)


def _train(options: Namespace) -> str:
    from training.extractor_model import SCHEDULE, train

    rows, left_out = training_examples(options.data)
    learnt, held_out = apart(rows)
    cases = training_cases(learnt)
    held_out += [row for row in map(without_answer, held_out) if row.context]
    dropped = ", ".join(f"{count} {why}" for why, count in left_out.items()) or "none"
    empty = sum(row.start < 0 for row in cases)
    described = (
        f"{len(learnt)} examples, {empty} without an answer, {len(cases) - empty} with an inverted pair; "
        f"{len(held_out)} held out (rows left out: {dropped})"
    )
    start = load_weights(options.start) if options.start else None
    return trained(options, described, lambda schedule: train([*learnt, *cases], held_out, schedule, start), SCHEDULE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; gives the exit code."""
    parser, _ = trainer("extractor", "Train the answer extractor.", "extractor.npz")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="measure on every Nth row")
    parser.add_argument("--start", type=Path, help="weights of an earlier training to start from")
    options = parser.parse_args(arguments)

    def work() -> str:
        if not options.evaluate:
            return _train(options)
        trained_on, _ = training_examples(options.data)
        seen = {pair for row in trained_on for pair in row.context.split("\n\n")}
        rows = examples(options.data / "train" / "extractor.valid.jsonl.gz")
        return evaluation_report(rows[:: options.every], seen)

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())
