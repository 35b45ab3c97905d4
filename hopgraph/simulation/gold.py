"""What perfect agents know: gold decompositions as facts, where each one stands, and the words that it is asked in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from hopgraph.evaluation.data import Question, SubQuestion
from hopgraph.evaluation.metrics import normalise, normalise_title
from inference.errors import InputError
from nodes.kit.rendering import quoted
from stores.passages import Passage

__all__ = ["Case", "Fact", "Form", "cases_of", "same", "squeezed"]

_REFERENCE = re.compile(r"#(\d)")
_NOUNS = {
    "educated at": "school",
    "owned by": "owner",
    "followed by": "successor",
    "named after": "namesake",
    "member of": "organization",
    "member of sports team": "sports team",
    "part of": "whole",
    "part of the series": "series",
    "capital of": "country",
    "headquarters location": "headquarters",
    "located in the administrative territorial entity": "administrative region",
    "located in or next to body of water": "body of water",
    "shares border with": "neighbour",
    "place of burial": "burial place",
    "publication date": "release date",
}
"""Wikidata's relations that are no nouns, or not the usual ones."""
_LONGEST = 200
"""Characters that methods allow a sub-question."""
_PHRASES = 8
"""Ways of saying the same at most: each answer that a sub-question needs by name, or described."""


@dataclass(frozen=True)
class Fact:
    """A step of a gold decomposition: what is asked, what is the answer, and which sentences say so."""

    number: int
    """From 1."""
    words: str
    """The sub-question; `#1` stands for the first fact's answer."""
    subject: str
    """What a relation is asked of; "" where the benchmark has a question in words."""
    relation: str
    needs: tuple[int, ...]
    """Facts whose answers it needs."""
    answer: str
    evidence: tuple[str, ...]
    """Sentences of its gold passage, `squeezed`: who sees one of them sees the fact. None: nobody can."""


@dataclass(frozen=True)
class Form:
    """A way of asking for a fact."""

    fact: Fact
    known: frozenset[int]
    """Facts whose answers stand in it."""


@dataclass(frozen=True)
class Case:
    """A question with its facts. `same`-ness of an answer is what tells a right value from a wrong one."""

    question: str
    answers: tuple[str, ...]
    facts: tuple[Fact, ...]

    @cached_property
    def last(self) -> tuple[Fact, ...]:
        """The facts that nothing else needs: what the answer follows from."""
        needed = {number for fact in self.facts for number in fact.needs}
        return tuple(fact for fact in self.facts if fact.number not in needed)

    @cached_property
    def forms(self) -> dict[str, Form]:
        """All ways of asking for each fact, `squeezed`, without the mark at their end."""
        found: dict[str, Form] = {}
        for fact in self.facts:
            for text, known in self._asked(fact):
                found.setdefault(_key(text), Form(fact, known))
        return found

    def fact(self, number: int) -> Fact:
        """The fact of that number."""
        return self.facts[number - 1]

    def below(self, fact: Fact) -> frozenset[int]:
        """All facts that it rests on, itself left out."""
        found = set(fact.needs)
        for number in fact.needs:
            found |= self.below(self.fact(number))
        return frozenset(found)

    def needed(self, fact: Fact | None) -> list[Fact]:
        """What has to be known to answer for a fact, itself included; None: for the question. In order."""
        wanted = self.below(fact) | {fact.number} if fact else {row.number for row in self.facts}
        return [row for row in self.facts if row.number in wanted]

    def form_of(self, text: str) -> Form | None:
        """What a sub-question asks for; None when it is none of this question's."""
        found = self.forms.get(_key(text))
        if found is None:
            squeezed_text = _key(text)
            # With a wrong answer put in it is still recognised where the user's question is known, too.
            for fact, pattern in self._patterns:
                if pattern.fullmatch(squeezed_text):
                    return Form(fact, frozenset())
        return found

    def ask(self, fact: Fact, values: Mapping[int, str], attempt: int = 0) -> str:
        """The sub-question with what is known put in, and the rest described; other words at another attempt."""

        def put_in(number: int) -> str:
            return values.get(number) or self.described(self.fact(number), values)

        if attempt == 1 and fact.relation:
            return f"{_filled(fact.subject, put_in)} {fact.relation}"
        text = _tidy(_filled(fact.words, put_in)) if attempt < 2 else self.question
        return text if len(text) <= _LONGEST else fact.words

    def statement(self, fact: Fact, values: Mapping[int, str]) -> str:
        """A fact in one sentence, with the value that it has among `values`."""
        asked = self.ask(fact, values).rstrip("?.! ")
        said = values[fact.number]
        prefix = f"What is the {fact.relation} of "
        if fact.relation and asked.startswith(prefix):
            return f"The {asked.removeprefix('What is the ')} is {said}."
        return f"{said} is what one gets to know by asking: {asked}."

    def described(self, fact: Fact, values: Mapping[int, str] | None = None) -> str:
        """The answer in words that do not give it away: `the director of Northern Lights`."""
        known = values or {}

        def put_in(number: int) -> str:
            return known.get(number) or self.described(self.fact(number), known)

        return _noun(fact, put_in)

    def values(
        self, shown: Iterable[int] = (), stated: Mapping[int, str] | None = None, known: Iterable[int] = ()
    ) -> dict[int, str]:
        """What can be known.

        A fact that is shown counts only where it is known whom it is about: the birthplace of some director says
        nothing as long as nobody knows that he directed the film.

        Args:
            shown: Facts whose evidence is seen.
            stated: Answers that others gave, right or wrong.
            known: Facts that a sub-question takes for granted.
        """
        found: dict[int, str] = {}
        seen, said = set(shown), stated or {}
        granted = set(known)
        for number in tuple(granted):
            granted |= self.below(self.fact(number))
        for fact in self.facts:
            number = fact.number
            subject_known = all(same(found.get(need, ""), self.fact(need).answer) for need in fact.needs)
            if number in granted or (number in seen and subject_known):
                found[number] = fact.answer
            elif said.get(number):
                found[number] = said[number]
        return found

    def conclude(self, values: Mapping[int, str]) -> str | None:
        """The question's answer, as far as it follows from what is known: a wrong fact makes it wrong, too."""
        if not all(values.get(fact.number) for fact in self.last):
            return None
        wrong = [fact for fact in self.last if not same(values[fact.number], fact.answer)]
        if not wrong:
            return self.answers[0]
        return values[wrong[0].number] if len(self.last) == 1 else self.other_answer()

    def other_answer(self) -> str:
        """The wrong one of two: what a comparison comes to when one of its facts is wrong."""
        if (said := normalise(self.answers[0])) in ("yes", "no"):
            return "no" if said == "yes" else "yes"
        subjects = [self.fact(min(self.below(fact) | {fact.number})).subject for fact in self.last]
        return next((text for text in subjects if text and not same(text, self.answers[0])), "something else")

    def _phrases(self, fact: Fact) -> list[tuple[str, frozenset[int]]]:
        """Its answer by name and described, and what is known to those who use the words."""
        by_name = (fact.answer, self.below(fact) | {fact.number})
        return [by_name, *((_noun(fact, put_in), known) for put_in, known in self._put_ins(fact))]

    def _put_ins(self, fact: Fact) -> Iterator[tuple[Callable[[int], str], frozenset[int]]]:
        choices = list(product(*(self._phrases(self.fact(number)) for number in fact.needs)))[:_PHRASES]
        for chosen in choices:
            texts = dict(zip(fact.needs, (text for text, _ in chosen), strict=True))
            yield texts.__getitem__, frozenset().union(*(known for _, known in chosen))

    def _asked(self, fact: Fact) -> Iterator[tuple[str, frozenset[int]]]:
        for put_in, known in self._put_ins(fact):
            yield _tidy(_filled(fact.words, put_in)), known
            if fact.relation:
                yield f"{_filled(fact.subject, put_in)} {fact.relation}", known
        yield fact.words, frozenset()

    @cached_property
    def _patterns(self) -> list[tuple[Fact, re.Pattern[str]]]:
        found = []
        for fact in self.facts:
            if fact.needs:
                parts = _REFERENCE.split(_tidy(fact.words))[::2]
                found.append((fact, re.compile(".+".join(re.escape(_key(part)) for part in parts))))
        return found


def cases_of(questions: Sequence[Question], passages: Mapping[str, Sequence[Passage]]) -> list[Case]:
    """Questions as perfect agents know them.

    Args:
        questions: With gold decompositions.
        passages: Gold passages by id or normalised title, an article that was cut in all its pieces; what is missing
            nobody will see.

    Raises:
        InputError: A question has no decomposition with answers.
    """
    cases = []
    for question in questions:
        steps = [step for step in question.decomposition if step.answer]
        if not steps or len(steps) < len(question.decomposition) or not question.answers:
            raise InputError(
                f"question {question.id} has no gold decomposition with answers, and perfect agents need one",
                hint="2wikimultihopqa and musique have them; in your own questions `decomposition` is a list of "
                '{"question", "answer"}',
            )
        cases.append(Case(question.question, question.answers, tuple(_facts(question, passages))))
    return cases


def same(one: str, other: str) -> bool:
    """Whether two answers are the same but for case, articles and signs."""
    return normalise(one) == normalise(other)


def squeezed(text: str) -> str:
    """A text as it stands in a prompt, without space and case: what is compared with what agents see."""
    return "".join(quoted(text).split()).casefold()


def _key(text: str) -> str:
    return squeezed(text).rstrip("?.!")


def _facts(question: Question, passages: Mapping[str, Sequence[Passage]]) -> Iterator[Fact]:
    steps = list({step.question: step for step in reversed(question.decomposition)}.values())[::-1]
    numbers = {step.question: number for number, step in enumerate(steps, start=1)}
    moved = {old: numbers[step.question] for old, step in enumerate(question.decomposition, start=1)}
    references = any(_REFERENCE.search(step.question) for step in steps)
    used: set[int] = set()
    for number, step in enumerate(steps, start=1):
        subject, mark, relation = step.question.partition(" >> ")
        if references:
            subject = _REFERENCE.sub(lambda match: f"#{moved.get(int(match[1]), int(match[1]))}", subject)
        elif mark and (earlier := _earlier(subject, steps[: number - 1], question.question, used)):
            used.add(earlier)
            subject = f"#{earlier}"
        relation = _NOUNS.get(relation, relation)
        words = f"What is the {relation} of {subject}?" if mark else subject
        needs = sorted({int(found) for found in _REFERENCE.findall(subject) if 0 < int(found) < number})
        evidence = tuple(_evidence(step, number - 1, len(steps), question, passages))
        yield Fact(number, words, subject if mark else "", relation, tuple(needs), step.answer, evidence)


def _earlier(subject: str, before: Sequence[SubQuestion], question: str, used: set[int]) -> int | None:
    """The earlier step that a subject is the answer of; None when the question itself names it."""
    for number, step in enumerate(before, start=1):
        if same(subject, step.answer):
            return number
    bare = set(normalise(re.sub(r"\(.*?\)", "", subject)).split())
    if not before or bare <= set(normalise(question).split()):
        return None
    for number, step in enumerate(before, start=1):
        words = set(normalise(step.answer).split())
        if bare <= words or words <= bare:
            return number
    return next((number for number in range(1, len(before) + 1) if number not in used), None)


def _evidence(
    step: SubQuestion, place: int, steps: int, question: Question, passages: Mapping[str, Sequence[Passage]]
) -> Iterator[str]:
    """The sentences of a step's gold passage that state its answer; where none does, the supporting ones, or all."""
    pieces = [piece for keys in _gold(step, place, steps, question) for piece in _pieces(keys, passages)]
    sentences = [sentence for piece in pieces for sentence in piece.sentences or (piece.text,)]
    answer = squeezed(step.answer)
    found = [text for sentence in sentences if answer in (text := squeezed(sentence))]
    supporting = [
        squeezed(piece.sentences[index])
        for piece in pieces
        for title, index in question.gold_sentences
        if normalise_title(title) == normalise_title(piece.title) and not piece.source and index < len(piece.sentences)
    ]
    yield from found or supporting or map(squeezed, sentences)


def _gold(step: SubQuestion, place: int, steps: int, question: Question) -> list[tuple[str, str]]:
    """Id and title of the gold passage that a step's answer is in.

    Where the benchmark does not name it, it is the one of the same title as the step's subject, or in the same place;
    else it may be any.
    """
    known = len(question.gold_ids) == len(question.gold_titles)
    ids = question.gold_ids if known else ("",) * len(question.gold_titles)
    gold = list(zip(ids, map(normalise_title, question.gold_titles), strict=True))
    if step.gold_id:
        return [row for row in gold if row[0] == step.gold_id] or [(step.gold_id, "")]
    subject = normalise_title(step.question.partition(" >> ")[0])
    by_title = [row for row in gold if row[1] == subject]
    return by_title or ([gold[place]] if steps == len(gold) else gold)


def _pieces(gold: tuple[str, str], passages: Mapping[str, Sequence[Passage]]) -> Sequence[Passage]:
    return passages.get(gold[0]) or passages.get(gold[1]) or ()


def _filled(text: str, put_in: Callable[[int], str]) -> str:
    return _REFERENCE.sub(lambda match: put_in(int(match[1])), text)


def _noun(fact: Fact, put_in: Callable[[int], str]) -> str:
    if fact.relation:
        return f"the {fact.relation} of {_filled(fact.subject, put_in)}"
    return f"the answer to “{_tidy(_filled(fact.words, put_in))}”"


def _tidy(text: str) -> str:
    return re.sub(r" (?=['’]s\b|[?,.])", "", text).replace("the the ", "the ")
