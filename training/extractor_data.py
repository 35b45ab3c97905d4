"""CompactRAG's training data for the answer extractor: questions, pairs, and where the answer stands in them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from training.rows import malformed, rows_of, text_of
from training.words import normalised


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
        raise malformed(where, "field 'answers' must hold a text and its start") from None
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
            said = phrase(asked, said)
        blocks.append(f"{asked}\n{said}" if said else block)
        at += len(block) + 2
    return replace(example, context="\n\n".join(blocks), start=start)


def phrase(question: str, answer: str) -> str:
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
