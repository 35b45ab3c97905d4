"""Training questions with their passages, as cases that perfect agents can play.

Three kinds: questions with a gold decomposition (2WikiMultiHopQA, MuSiQue, HotpotQA's bridges), which every method
plays; questions of one hop (Natural Questions); and multi-hop questions of which only the supporting paragraphs are
known, for Standard RAG, which reads them at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from hopgraph.evaluation.data import Question, SubQuestion
from hopgraph.evaluation.metrics import normalise_title
from hopgraph.simulation.case import REFERENCE, Case, Fact, same, squeezed
from hopgraph.simulation.gold import NOUNS, cases_of
from stores.passages import Passage, content_id
from stores.sentences import split_sentences
from training.relations import RELATIONS, in_words
from training.rows import dev_questions, objects_of, rows_of, text_of
from training.words import normalised, within

Kind = Literal["decomposed", "single", "whole"]


@dataclass(frozen=True)
class _Case(Case):
    """A case whose facts without a relation are stated as a question and its answer."""

    def statement(self, fact: Fact, values: Mapping[int, str]) -> str:
        """A fact with its value of `values`, as one line."""
        if fact.relation:
            return super().statement(fact, values)
        return f"{self.ask(fact, values)} {values[fact.number]}."


@dataclass(frozen=True, slots=True)
class Lesson:
    """A training question to play."""

    kind: Kind
    source: str
    """Data set and split, as the data file says."""
    case: Case
    passages: tuple[Passage, ...]
    """Gold and distractors."""
    gold: frozenset[str] = frozenset()
    """Ids of the gold passages."""


def lessons(data: Path) -> Iterator[Lesson]:
    """All lessons, without questions that are asked, or asked on the way, in any dev set.

    Args:
        data: Folder that holds `train/` and a folder for each data set.

    Raises:
        InputError: A file is missing or malformed.
    """
    dev = dev_questions(data)
    train = data / "train"
    steps = dict(_decompositions(train))
    seen: set[str] = set()
    for name in ("multihop_context", "multihop_context_more", "single_hop_qed"):
        for where, row in rows_of(train / f"{name}.train.jsonl.gz"):
            key = normalised(text_of(row, "question", where))
            if key in seen:
                continue
            seen.add(key)
            lesson = _lesson(row, where, steps.get(key, ()))
            if lesson is None or dev & asked_in(lesson):
                continue
            yield lesson
            other = turned(lesson)
            if other is not None and not dev & asked_in(other):
                yield other


_DIRECTIONS = {
    "earlier": "later",
    "first": "later",
    "older": "younger",
    "later": "earlier",
    "more recently": "earlier",
    "younger": "older",
}
DIRECTION = re.compile(rf"\b(?:{'|'.join(_DIRECTIONS)})\b")
"""Which of two a comparison of dates asks for."""


def turned(lesson: Lesson) -> Lesson | None:
    """A comparison of two dates asked the other way round, "born later" for "born earlier"; None if it is none.

    Four of five ask for the earlier, which teaches to answer with the earlier whatever is asked.
    """
    case = lesson.case
    named = any(DIRECTION.search(name.casefold()) for name in case.compared)
    if lesson.kind != "decomposed" or len(case.last) != 2 or len(DIRECTION.findall(case.question)) != 1 or named:
        return None
    if not any(same(case.answers[0], name) for name in case.compared):
        return None
    question = DIRECTION.sub(lambda found: _DIRECTIONS[found[0]], case.question)
    return replace(lesson, case=replace(case, question=question, answers=(case.other_answer(),)))


def asked_in(lesson: Lesson) -> set[str]:
    """The normalised question of a lesson and its sub-questions, with the answers that they need filled in."""
    case = lesson.case
    gold = {fact.number: fact.answer for fact in case.facts}
    texts = [case.question, *(case.ask(fact, gold) for fact in case.facts)]
    texts += [f"{case.subject(fact, gold)} >> {fact.relation}" for fact in case.facts if fact.relation]
    return {normalised(text) for text in texts}


def _decompositions(train: Path) -> Iterator[tuple[str, tuple[SubQuestion, ...]]]:
    """Steps by normalised question; 2WikiMultiHopQA's as subject and relation."""
    for name in ("decomposition", "decomposition_more"):
        for where, row in rows_of(train / f"{name}.train.jsonl.gz"):
            source, question = str(row.get("source", "")), text_of(row, "question", where)
            if source.partition("-")[0] not in ("2wikimultihopqa", "musique", "hotpotqa"):
                continue
            if triples := row.get("evidences"):
                steps = tuple(SubQuestion(f"{subject} >> {relation}", end) for subject, relation, end in triples)
            else:
                parts = objects_of(row, "subquestions", where)
                if not all(part.get("answer") for part in parts):
                    continue  # HotpotQA's comparisons have look-ups without answers
                steps = tuple(SubQuestion(text_of(p, "question", where), text_of(p, "answer", where)) for p in parts)
            if source.startswith("hotpotqa"):
                steps = _with_references(steps)
            if len(steps) > 1:
                yield normalised(question), steps


def _with_references(steps: Sequence[SubQuestion]) -> tuple[SubQuestion, ...]:
    """Steps whose questions name the answers of earlier ones, with `#1` in their place."""
    written: list[SubQuestion] = []
    for step in steps:
        text = step.question
        for number, earlier in enumerate(written, start=1):
            text = re.sub(rf"\b{re.escape(earlier.answer)}(?!\w)", f"#{number}", text)
        written.append(replace(step, question=text))
    return tuple(written) if all("#" in step.question for step in written[1:]) else ()


def _lesson(row: Mapping[str, Any], where: str, steps: tuple[SubQuestion, ...]) -> Lesson | None:
    """The lesson of a row; None if it is not known which of its paragraphs are gold."""
    paragraphs = objects_of(row, "paragraphs", where)
    gold = [p for p in paragraphs if p.get("supporting", p.get("is_supporting")) is True]
    answers = tuple(str(answer) for answer in row.get("answers") or ())
    question = " ".join(text_of(row, "question", where).split())
    if not gold or not answers or REFERENCE.search(question):  # "#1" would be read as a step's answer
        return None
    passages = tuple(_passage(p) for p in paragraphs)
    kept = [_passage(p) for p in gold]
    gold_ids = frozenset(passage.id for passage in kept)
    source = str(row.get("source", "")).partition(" ")[0]
    if steps:
        known = Question(
            id=where,
            question=question,
            answers=answers,
            gold_titles=tuple(passage.title for passage in kept),
            decomposition=steps,
        )
        by_title: dict[str, list[Passage]] = {}
        for passage in map(_in_sentences, kept):
            by_title.setdefault(normalise_title(passage.title), []).append(passage)
        [case] = cases_of([known], by_title)
        if any(fact.subject.count('"') % 2 for fact in case.facts):
            return None  # cut out of a title
        facts = tuple(_put_in_words(fact) for fact in case.facts)
        return Lesson("decomposed", source, _Case(case.question, case.answers, facts), passages, gold_ids)
    if row.get("hops") == 1:
        question = question[:1].upper() + question[1:] + ("" if question.endswith("?") else "?")
        stating = [
            text
            for p in map(_in_sentences, kept)
            for text in p.sentences
            if any(within(answer, text) for answer in answers)
        ]
        return Lesson("single", source, _one(question, answers, stating), passages, gold_ids) if stating else None
    facts = tuple(_fact(n, question, answers[0], [passage.text]) for n, passage in enumerate(kept, start=1))
    return Lesson("whole", source, Case(question, answers, facts), passages, gold_ids)


def _passage(paragraph: Mapping[str, Any]) -> Passage:
    sentences = tuple(str(one) for one in paragraph.get("sentences") or ())
    title = str(paragraph.get("title") or "")
    text = str(paragraph.get("text") or "").strip() or " ".join(sentences)
    return Passage(content_id(title, text), title, text, sentences)


def _in_sentences(passage: Passage) -> Passage:
    """The passage with its sentences, split as the store does it."""
    return passage if passage.sentences else replace(passage, sentences=tuple(split_sentences([passage.text])[0]))


def _one(question: str, answers: tuple[str, ...], stating: Sequence[str]) -> Case:
    """The case of a question that one sentence answers."""
    return _Case(question, answers, (_fact(1, question, answers[0], stating),))


def _fact(number: int, question: str, answer: str, evidence: Sequence[str]) -> Fact:
    """A fact that any of the texts shows."""
    return Fact(number, question, "", "", (), answer, tuple(map(squeezed, evidence)))


_OF_NOUN = {noun: relation for relation, noun in NOUNS.items()}


def _put_in_words(fact: Fact) -> Fact:
    """A fact whose sub-question is in words instead of "What is the RELATION of SUBJECT?"."""
    relation = fact.relation if fact.relation in RELATIONS else _OF_NOUN.get(fact.relation, "")
    return replace(fact, words=f"{in_words(relation, fact.subject)}?") if relation in RELATIONS else fact
