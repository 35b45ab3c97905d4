"""A question as known to perfect agents: facts, the sub-questions that ask for them, and their consequences."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from hopgraph.evaluation.metrics import normalise
from inference.limits import QUESTION_LENGTH
from nodes.kit.rendering import quoted

REFERENCE = re.compile(r"#(\d)")
"""Placeholder for the answer of an earlier fact."""
_HEAD = re.compile(
    r"(?:(?:at|from|in|of|on|to) )?(?:which|what) (?:(?:is|was|are|were) the (?:name of the )?)?([a-z]+)", re.I
)
"""What a sub-question in words asks for: its noun."""
_NO_NOUN = re.compile(r"are|by|did|do|does|has|have|in|is|of|other|to|was|were|will|would")
_BY_WORD = {"who": "person", "whom": "person", "where": "place", "when": "date"}
_PHRASES = 8
"""Maximum wordings of a sub-question: each answer it needs is named or described."""


@dataclass(frozen=True)
class Fact:
    """A step of a gold decomposition: sub-question, answer and evidence sentences."""

    number: int
    """From 1."""
    words: str
    """The sub-question; `#1` stands for the first fact's answer."""
    subject: str
    """Subject of the relation; "" if the benchmark gives a question in words."""
    relation: str
    needs: tuple[int, ...]
    """Numbers of the facts whose answers it needs."""
    answer: str
    evidence: tuple[str, ...]
    """Sentences of its gold passage, `squeezed`: any one of them shows the fact. Empty: nothing can show it."""

    def stated_in(self, text: str) -> bool:
        """Whether a `squeezed` text has an evidence sentence."""
        return any(sentence in text for sentence in self.evidence)


@dataclass(frozen=True)
class Form:
    """A wording of the sub-question for a fact."""

    fact: Fact
    known: frozenset[int]
    """Numbers of the facts whose answers it contains."""


@dataclass(frozen=True)
class Case:
    """A question with its facts. A value is right if it is the `same` as the gold answer."""

    question: str
    answers: tuple[str, ...]
    facts: tuple[Fact, ...]
    compound: bool = False
    """Whether each fact is an answer of its own; else they are chained or compared (HANRAG, Sec. 3)."""

    @cached_property
    def last(self) -> tuple[Fact, ...]:
        """Facts that no other fact needs; the answer follows from them."""
        needed = {number for fact in self.facts for number in fact.needs}
        return tuple(fact for fact in self.facts if fact.number not in needed)

    @cached_property
    def forms(self) -> dict[str, Form]:
        """All wordings of the sub-questions, by `form_key`."""
        found: dict[str, Form] = {}
        for fact in self.facts:
            for text, known in self._asked(fact):
                found.setdefault(form_key(text), Form(fact, known))
        return found

    def fact(self, number: int) -> Fact:
        """The fact of a number, from 1."""
        return self.facts[number - 1]

    def below(self, fact: Fact) -> frozenset[int]:
        """Numbers of all facts that a fact depends on, itself excluded."""
        found = set(fact.needs)
        for number in fact.needs:
            found |= self.below(self.fact(number))
        return frozenset(found)

    def needed(self, fact: Fact | None) -> list[Fact]:
        """Facts needed to answer a fact (itself included) or, for None, the question; in order."""
        wanted = self.below(fact) | {fact.number} if fact else {row.number for row in self.facts}
        return [row for row in self.facts if row.number in wanted]

    def form_of(self, text: str) -> Form | None:
        """The form of a sub-question; None if it is not one of this question's."""
        key = form_key(text)
        if found := self.forms.get(key):
            return found
        # A sub-question with a wrong answer filled in is recognised by its pattern.
        return next((Form(fact, frozenset()) for fact, pattern in self._patterns if pattern.fullmatch(key)), None)

    def ask(self, fact: Fact, values: Mapping[int, str], attempt: int = 0) -> str:
        """The sub-question with known answers filled in and others described; each attempt has another wording."""

        def put_in(number: int) -> str:
            return self.name(number, values)

        if attempt == 1 and fact.relation:
            return f"{_filled(fact.subject, put_in)} {fact.relation}"
        text = _tidy(_filled(fact.words, put_in)) if attempt < 2 else self.question
        return text if len(text) <= QUESTION_LENGTH else fact.words

    def statement(self, fact: Fact, values: Mapping[int, str]) -> str:
        """A fact with its value of `values`, as one sentence."""
        said = values[fact.number]
        if fact.relation:
            return f"The {fact.relation} of {self.subject(fact, values)} is {said}."
        return f"{said} is what one gets to know by asking: {self.ask(fact, values).rstrip('?.! ')}."

    def subject(self, fact: Fact, values: Mapping[int, str]) -> str:
        """The subject of a fact's relation, with known answers filled in and others described."""
        return _tidy(_filled(fact.subject, lambda number: self.name(number, values)))

    def pronoun(self, fact: Fact) -> str:
        """Words for a fact's unknown answer where the fact was asked for before: `this director`, `this place`."""
        relation = fact.relation.partition(" of ")[0].split()
        head = _HEAD.match(fact.words)
        nouns = (relation[-1] if relation else "", head[1].casefold() if head else "")
        found = next((noun for noun in nouns if noun.isalpha() and not _NO_NOUN.fullmatch(noun)), "")
        return f"this {found or _BY_WORD.get(fact.words.partition(' ')[0].casefold(), 'answer')}"

    def description(self, fact: Fact, values: Mapping[int, str]) -> str:
        """What a fact's value is, without the value: `the place of birth of John Hanson`, or `of this director`."""
        if not fact.relation:
            return self.pronoun(fact).replace("this", "the", 1)
        known = {number: values.get(number) or self.pronoun(self.fact(number)) for number in fact.needs}
        return f"the {fact.relation} of {self.subject(fact, known)}"

    def name(self, number: int, values: Mapping[int, str]) -> str:
        """A fact's value if known; else a description that doesn't reveal it: `the director of Northern Lights`."""
        return values.get(number) or _noun(self.fact(number), lambda other: self.name(other, values))

    def values(
        self, shown: Iterable[int] = (), stated: Mapping[int, str] | None = None, known: Collection[int] = ()
    ) -> dict[int, str]:
        """Values of the facts that can be known, by number.

        A shown fact counts only if the facts it needs are known: a director's birthplace says nothing until it is known
        that he directed the film.

        Args:
            shown: Numbers of the facts whose evidence is shown.
            stated: Answers given by others, right or wrong, by number.
            known: Numbers of the facts that a sub-question presupposes.
        """
        found: dict[int, str] = {}
        seen, said = set(shown), stated or {}
        presupposed = {*known}.union(*(self.below(self.fact(number)) for number in known))
        for fact in self.facts:
            number = fact.number
            subject_known = all(same(found.get(need, ""), self.fact(need).answer) for need in fact.needs)
            if number in presupposed or (number in seen and subject_known):
                found[number] = fact.answer
            elif said.get(number):
                found[number] = said[number]
        return found

    def conclude(self, values: Mapping[int, str]) -> str | None:
        """The question's answer if it follows from the values, else None; a wrong value makes it wrong."""
        if not all(values.get(fact.number) for fact in self.last):
            return None
        wrong = [fact for fact in self.last if not same(values[fact.number], fact.answer)]
        if not wrong:
            return self.answers[0]
        return values[wrong[0].number] if len(self.last) == 1 else self.other_answer()

    def other_answer(self) -> str:
        """The wrong answer of a comparison, which a wrong value leads to."""
        if (said := normalise(self.answers[0])) in ("yes", "no"):
            return "no" if said == "yes" else "yes"
        return next((text for text in self.compared if text and not same(text, self.answers[0])), "something else")

    @cached_property
    def compared(self) -> tuple[str, ...]:
        """What is compared: the subject with which the chain to each of the last facts begins; "" if it has none."""
        return tuple(self.fact(min(self.below(fact) | {fact.number})).subject for fact in self.last)

    def _phrases(self, fact: Fact) -> list[tuple[str, frozenset[int]]]:
        """Wordings of a fact's answer, named and described, each with the facts that it presupposes."""
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
                parts = REFERENCE.split(_tidy(fact.words))[::2]
                found.append((fact, re.compile(".+".join(re.escape(form_key(part)) for part in parts))))
        return found


def same(one: str, other: str) -> bool:
    """Whether two answers are equal up to case, articles and punctuation."""
    return normalise(one) == normalise(other)


def squeezed(text: str) -> str:
    """A text as prompts quote it, without spaces and case, for comparison with prompts."""
    return "".join(quoted(text).split()).casefold()


def form_key(text: str) -> str:
    """A sub-question as a key: `squeezed`, without the punctuation at its end."""
    return squeezed(text).rstrip("?.!")


def _filled(text: str, put_in: Callable[[int], str]) -> str:
    return REFERENCE.sub(lambda match: put_in(int(match[1])), text)


def _noun(fact: Fact, put_in: Callable[[int], str]) -> str:
    if fact.relation:
        return f"the {fact.relation} of {_filled(fact.subject, put_in)}"
    return f"the answer to “{_tidy(_filled(fact.words, put_in))}”"


def _tidy(text: str) -> str:
    return re.sub(r"\bthe (?=(?:the|this) )", "", re.sub(r" (?=['’]s\b|[?,.])", "", text), flags=re.I)
