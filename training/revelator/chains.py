"""Multi-hop training questions with all their hops, each hop a question that stands alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.relations import in_words
from training.revelator.examples import Turn
from training.rows import objects_of, rows_of, text_of
from training.words import within


@dataclass(frozen=True, slots=True)
class Chain:
    """A multi-hop question with all its hops."""

    question: str
    turns: tuple[Turn, ...]
    source: str


def one_line(question: str) -> str:
    """A question in one line. Some sources write all in lower case: the first letter does not tell them apart."""
    question = " ".join(question.split())
    return question[:1].upper() + question[1:]


def as_question(part: str) -> str:
    """A part of a question as a question of its own."""
    return one_line(part.rstrip(" ?.,")) + "?"


def read_chains(train: Path) -> Iterator[Chain]:
    """Training questions of MuSiQue and 2WikiMultiHopQA with their hops: each hop a question that stands alone."""
    yield from _read(train / "decomposition.train.jsonl.gz")


def read_more_chains(train: Path) -> Iterator[Chain]:
    """More of them, most of whose hops are put as "What is the spouse of X?", and HotpotQA's bridges."""
    yield from _read(train / "decomposition_more.train.jsonl.gz")


def _read(path: Path) -> Iterator[Chain]:
    for where, row in rows_of(path):
        source = str(row.get("source", ""))
        read = _READERS.get(source.partition("-")[0])
        if read is None:
            continue
        parts = objects_of(row, "subquestions", where)
        if not all(part.get("answer") for part in parts):
            continue  # HotpotQA's comparisons have look-ups without answers
        turns = read(row, [(text_of(part, "question", where), text_of(part, "answer", where)) for part in parts])
        if len(turns) > 1:
            yield Chain(one_line(text_of(row, "question", where)), turns, source)


_REFERENCE = re.compile(r"#\s?(\d+)")


def musique_turns(row: Mapping[str, Any], parts: list[tuple[str, str]]) -> tuple[Turn, ...]:
    """Hops that stand alone: `#k` becomes the answer of hop k; `subject >> relation` is put into words."""
    answers = [answer for _, answer in parts]

    def answer(match: re.Match[str]) -> str:
        number = int(match[1])
        return answers[number - 1] if 1 <= number <= len(answers) else match[0]

    return tuple(Turn(as_question(_REFERENCE.sub(answer, _in_words(asked))), said) for asked, said in parts)


def _two_wiki_turns(row: Mapping[str, Any], parts: list[tuple[str, str]]) -> tuple[Turn, ...]:
    """Its answers are sentences by a model; the object of the official evidence that one contains replaces it."""
    if not row.get("evidences"):
        return musique_turns(row, parts)
    objects = [str(evidence[2]) for evidence in row.get("evidences") or () if len(evidence) == 3]
    turns = []
    for number, (asked, said) in enumerate(parts):
        own_first = objects[number : number + 1] + objects
        short = next((item for item in own_first if within(item, said)), said.rstrip(". "))
        turns.append(Turn(as_question(asked), short))
    return tuple(turns)


_READERS: Mapping[str, Callable[[Mapping[str, Any], list[tuple[str, str]]], tuple[Turn, ...]]] = {
    "musique": musique_turns,
    "2wikimultihopqa": _two_wiki_turns,
    "hotpotqa": musique_turns,
}


def _in_words(asked: str) -> str:
    subject, arrow, relation = (part.strip() for part in asked.partition(">>"))
    if not arrow:
        return asked
    return in_words(relation, subject)
