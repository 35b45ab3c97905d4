"""Trains CompactRAG's answer extractor (Sec. 3.2.2) and prints the tables of `training/README.md`.

python -m training.extractor --data ../shared/data               train, and write inference/extractor.npz
python -m training.extractor --data ../shared/data --evaluate    what the shipped extractor does (no torch)
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
from inference.extractor import extract_answers
from inference.heads import save_weights
from training.command import WEIGHTS, guarded, parser, written
from training.hop_data import normalised, rows_of, text_of
from training.measures import agreement, table

__all__ = ["EXTRACTORS", "Example", "evaluation_report", "examples", "main", "shortened", "training_examples"]

SHIPPED = WEIGHTS / "extractor.npz"


@dataclass(frozen=True, slots=True)
class Example:
    """A question, pairs, and the words of them that answer it."""

    question: str
    context: str
    answer: str
    start: int
    """Where the answer starts in the context, in characters; -1: nowhere."""


def examples(path: Path) -> list[Example]:
    """Rows of a file of CompactRAG's training data, as they are but for where the answer is.

    In 4% of the rows it is not where the row says. There it is looked for without case in the answers of all pairs,
    and the place nearest to the one that was said is taken.

    Raises:
        InputError: The file is missing or malformed.
    """
    return [_example(row, where) for where, row in rows_of(path)]


def _example(row: dict[str, object], where: str) -> Example:
    question, context = text_of(row, "question", where), text_of(row, "context", where)
    try:
        answers = row["answers"]
        answer, said = answers["text"][0], answers["answer_start"][0]  # type: ignore[index]
        if not isinstance(answer, str) or not isinstance(said, int):
            raise TypeError
    except (KeyError, IndexError, TypeError):
        raise InputError(
            f"{where}: field 'answers' must hold a text and its start", hint="see data/SOURCES.md"
        ) from None
    if said >= 0 and context[said : said + len(answer)] == answer:
        return Example(question, context, answer, said)
    found = [match.start() for match in re.finditer(re.escape(answer), context, re.IGNORECASE)] if answer else []
    in_answers = [start for start in found if "\n" in context[:start].rpartition("\n\n")[2]]
    start = min(in_answers, key=lambda place: abs(place - said), default=-1)
    return Example(question, context, context[start : start + len(answer)] if start >= 0 else answer, start)


def training_examples(data: Path) -> tuple[list[Example], Counter[str]]:
    """Examples to train on, and how many of the file were left out, and why.

    Each comes twice: as it is, its answers sentences; and with every pair's answer shortened to a phrase, as a reader
    writes them that keeps answers to words of the passage.

    Raises:
        InputError: The file is missing or malformed.
    """
    kept, left_out = [], Counter[str]()
    measured = {normalised(example.question) for example in examples(data / "train" / "extractor.valid.jsonl.gz")}
    for example in examples(data / "train" / "extractor.train.jsonl.gz"):
        if example.start < 0:
            left_out["without the answer"] += 1
        elif normalised(example.question) in measured:
            left_out["in the validation file"] += 1
        else:
            kept += [example, shortened(example)]
    return kept, left_out


def shortened(example: Example) -> Example:
    """The example with each pair's answer cut down to a phrase: the right one to the answer itself.

    A distractor's phrase is the longest run of words that its question does not have: often, not always, what the
    question asks for.
    """
    blocks: list[str] = []
    start, at = -1, 0
    for block in example.context.split("\n\n"):
        asked, _, said = block.partition("\n")
        if at <= example.start < at + len(block):
            said = example.answer
            start = sum(len(before) + 2 for before in blocks) + len(asked) + 1
        elif said:
            said = _phrase(asked, said)
        blocks.append(f"{asked}\n{said}" if said else block)
        at += len(block) + 2
    return replace(example, context="\n\n".join(blocks), start=start)


def _phrase(question: str, answer: str) -> str:
    """The longest run of an answer's words that the question does not have; little words only join."""
    known = {*normalised(question).split(), "", "is", "was", "are", "were", "by", "on", *_LITTLE}
    runs, run = [], list[str]()
    for word in [*answer.rstrip(".").split(), ""]:
        if normalised(word) not in known or (run and word in _LITTLE):
            run.append(word)
        elif run:
            runs.append(run)
            run = []
    phrases = [re.sub(rf"( ({'|'.join(_LITTLE)}))+$", "", " ".join(run)).strip(" ,;") for run in runs]
    return max(phrases, key=len, default="") or answer


_LITTLE = ("the", "a", "an", "of", "in", "and")


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
    "of that answer, the longest run of words not in the question": lambda row: _phrase(
        f"{row.question} {_closest_pair(row.question, row.context)[0]}", _closest_pair(row.question, row.context)[1]
    ),
    "the right pair's whole answer, told which pair": _right_line,
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
                speed.append(f"{milliseconds:.1f} ms of CPU time a question where answers are {form}")
                if form == "sentences" and unseen.any():
                    of_them = scores[unseen].mean(axis=0).tolist()
                    lines.append([f"{name}, no pair seen in training", form, int(unseen.sum()), *of_them])
    titles = ["extractor", "answers are", "rows", "exact match", "F1"]
    return f"{table(titles, lines)}\n\n{'; '.join(speed)}\n"


def _train(data: Path, to: Path, epochs: float | None) -> str:
    from training.extractor_model import SCHEDULE, train

    rows, left_out = training_examples(data)
    start = time.perf_counter()
    save_weights(to, train(rows, replace(SCHEDULE, epochs=epochs) if epochs else SCHEDULE))
    dropped = ", ".join(f"{count} {why}" for why, count in left_out.items()) or "none"
    return written(to, f"{len(rows)} examples (rows left out: {dropped})", time.perf_counter() - start)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; gives the exit code."""
    options = parser("extractor", "Train the answer extractor.", SHIPPED)
    options.add_argument("--evaluate", action="store_true", help="print what the shipped one does; trains nothing")
    chosen = options.parse_args(arguments)

    def report() -> str:
        if chosen.evaluate:
            trained_on, _ = training_examples(chosen.data)
            seen = {pair for row in trained_on for pair in row.context.split("\n\n")}
            return evaluation_report(examples(chosen.data / "train" / "extractor.valid.jsonl.gz"), seen)
        return _train(chosen.data, chosen.to, chosen.epochs)

    return guarded(report)


if __name__ == "__main__":
    sys.exit(main())
