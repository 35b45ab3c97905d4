"""Examples of all five skills, made from training data alone (HANRAG, Sec. 4.2 and App. B)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from inference.limits import UNKNOWN
from training.revelator.chains import as_question, one_line, read_chains
from training.revelator.examples import ROUTES, Example, divided
from training.revelator.merged import merged_questions
from training.revelator.relevance import hop_relevance, paragraph_relevance
from training.rows import malformed, objects_of, rows_of, text_of


def all_examples(data: Path, compound: Path | None = None) -> tuple[list[Example], list[Example], dict[str, int]]:
    """Examples to train on, held-out examples, and how many were left out for what cause (`divided`).

    Args:
        data: Folder that holds `train/` and a folder for each data set.
        compound: Questions of `training.revelator.compound`: more compound routes and decompositions.

    Raises:
        InputError: A file is missing or malformed.
    """
    return divided(_examples(data, compound), data)


def _examples(data: Path, compound: Path | None) -> Iterator[Example]:
    train = data / "train"
    singles = list(_single_steps(train))
    yield from _routes(train)
    yield from _sub_question_routes(train)
    yield from _split_conjunctions(train)
    yield from merged_questions(train)
    yield from (Example("decomposer", source, question, question, (question,)) for question, source in singles[::4])
    yield from _hops(train)
    yield from (Example("refiner", source, question, question, question) for question, source in singles[1::4])
    yield from paragraph_relevance(train)
    yield from hop_relevance(train)
    if compound is not None:
        yield from _benchmark(compound)


def _routes(train: Path) -> Iterator[Example]:
    """`router.train`; its labels are weak, as its sources say.

    It calls comparisons compound. They are complex: their parts are compared (App. C counts all questions of HotpotQA
    and 2WikiMultiHopQA so).
    """
    for where, row in rows_of(train / "router.train.jsonl.gz"):
        if row.get("label") not in ROUTES:
            raise malformed(where, f"field 'label' must be one of {', '.join(ROUTES)}")
        question = one_line(text_of(row, "question", where))
        source, label = str(row.get("source", "")), str(row["label"])
        if label == "compound" and not source.startswith(_CONJUNCTION):
            label = "complex"
        yield Example("router", source, question, question, label)


_CONJUNCTION = "synthetic conjunction"
"""Where the source starts so, two questions that have nothing to do with each other were joined."""


def _sub_question_routes(train: Path) -> Iterator[Example]:
    """Sub-queries of multi-hop questions are single-step questions (Sec. 4.2)."""
    for chain in read_chains(train):
        for turn in chain.turns:
            yield Example("router", f"{chain.source} sub-question", chain.question, turn.question, "single-step")


def _single_steps(train: Path) -> Iterator[tuple[str, str]]:
    """Questions of one step, and their sources."""
    for example in _routes(train):
        if example.target == "single-step":
            yield example.question, example.source


_JOINTS = ("? Also, ", "? And ", ", and ", " and ")
"""How the two questions of a synthetic compound question are joined."""


def _split_conjunctions(train: Path) -> Iterator[Example]:
    """Synthetic compound questions, taken apart where they were joined; not those with several such places."""
    for example in _routes(train):
        parts = _taken_apart(example.question) if example.source.startswith(_CONJUNCTION) else []
        if parts:
            yield Example("decomposer", example.source, example.question, example.question, tuple(parts))


def _taken_apart(question: str) -> list[str]:
    joint = next((joint for joint in _JOINTS if joint in question), None)
    parts = question.split(joint) if joint else []
    return [as_question(part) for part in parts] if len(parts) == 2 else []


def _hops(train: Path) -> Iterator[Example]:
    """For each hop: what to ask next, knowing the hops before it; and whether the question can be answered after it.

    It can't while the last hop's answer is unknown.
    """
    for chain in read_chains(train):
        for number, turn in enumerate(chain.turns):
            known = chain.turns[:number]
            yield Example("refiner", chain.source, chain.question, chain.question, turn.question, known)
            ended = number + 1 == len(chain.turns)
            yield Example("ending", chain.source, chain.question, chain.question, ended, (*known, turn))
            if ended:
                source, unknown = f"{chain.source}, last hop unknown", replace(turn, answer=UNKNOWN)
                yield Example("ending", source, chain.question, chain.question, False, (*known, unknown))


def _benchmark(path: Path) -> Iterator[Example]:
    """Compound questions that a model wrote: their route, and the questions they were merged from (App. B.2, B.3)."""
    for where, row in rows_of(path):
        question = text_of(row, "question", where)
        asked = tuple(text_of(part, "question", where) for part in objects_of(row, "decomposition", where))
        yield Example("router", "compound benchmark", question, question, "compound")
        yield Example("decomposer", "compound benchmark", question, question, asked)
