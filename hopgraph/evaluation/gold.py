"""Gold passages of questions, identified by id where ids are known, else by title."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

from hopgraph.evaluation.data import Question
from hopgraph.evaluation.metrics import normalise_title
from nodes.kit.state import GivenPassage
from stores.passages import Passage


def known_by(questions: Sequence[Question], indexes: Sequence[Mapping[str, str]], *, contexts: bool) -> str:
    """How a run identifies gold passages: `ids` of its indexes, positions among the `contexts`, or `titles`.

    Args:
        questions: The run's questions.
        indexes: Name and hash of each index searched.
        contexts: Whether questions bring their own passages instead.
    """
    from stores.index import open_index

    if contexts:
        return "contexts" if any(question.gold_contexts for question in questions) else "titles"
    ids = list(dict.fromkeys(key for question in questions for key in question.gold_ids))[:500]
    known = bool(indexes and ids) and all(open_index(index["name"]).known(ids) for index in indexes)
    return "ids" if known else "titles"


def not_in(index: str, questions: Sequence[Question], by: str) -> list[str]:
    """Ids and titles of gold passages that an index lacks.

    Args:
        index: Its name.
        questions: The run's questions.
        by: The run's `known_by`.
    """
    from stores.index import open_index

    opened = open_index(index)
    known = [as_known(question, by) for question in questions]
    ids = list(dict.fromkeys(key for question in known for key in question.gold_ids))
    titles = dict.fromkeys(title for question in known if not question.gold_ids for title in question.gold_titles)
    there = opened.known(ids)
    there |= {normalise_title(title) for title in opened.titles()} if titles else set()
    return [key for key in ids if key not in there] + [t for t in titles if normalise_title(t) not in there]


def as_known(question: Question, by: str) -> Question:
    """A question with the `gold_ids` that a run uses; empty if it compares titles.

    Args:
        question: The question.
        by: The run's `known_by`.
    """
    from nodes.intake import given_passages
    from stores.given import given_ids

    if by == "ids":
        return question
    given = [question.contexts[at] for at in question.gold_contexts] if by == "contexts" else []
    ids = given_ids(given_passages([cast(GivenPassage, row) for row in given]))
    return replace(question, gold_ids=tuple(ids))


def gold_of(question: Question) -> set[str]:
    """The gold of a question (from `as_known`): ids of passages or articles, or normalised titles."""
    return set(question.gold_ids) or {normalise_title(title) for title in question.gold_titles}


def counts_as(key: str, question: Question, passages: Mapping[str, Passage | None]) -> str:
    """The key to compare a passage with gold: its id, its article's id, or its title if gold is titles.

    Args:
        key: Its id.
        question: From `as_known`.
        passages: Passages by id; a missing one counts as its id.
    """
    passage = passages.get(key)
    if passage is None or key in question.gold_ids:
        return key
    return passage.source or key if question.gold_ids else normalise_title(passage.title)


def gold_passages(questions: Sequence[Question], index: str | None) -> dict[str, list[Passage]]:
    """Gold passages by id and by normalised title, a split article as all its pieces."""
    ids = {key for question in questions for key in question.gold_ids}
    titles = {normalise_title(title) for question in questions for title in question.gold_titles}
    found: dict[str, list[Passage]] = defaultdict(list)
    for passage in _own(questions) if index is None else _indexed(index):
        key = passage.source or passage.id
        if key in ids:
            found[key].append(passage)
        if (title := normalise_title(passage.title)) in titles:
            found[title].append(passage)
    return dict(found)


def _indexed(index: str) -> Iterator[Passage]:
    from stores.index import open_index

    for chunk in open_index(index).passages():
        yield from chunk


def _own(questions: Sequence[Question]) -> Iterator[Passage]:
    """The questions' own passages, with their sentences."""
    from stores.sentences import split_sentences

    rows = {(row["title"], row["text"]): row for question in questions for row in question.contexts}
    bare = [key for key, row in rows.items() if not row.get("sentences")]
    split = dict(zip(bare, split_sentences([text for _, text in bare]), strict=True))
    for (title, text), row in rows.items():
        yield Passage("", title, text, tuple(row.get("sentences") or split[title, text]))
