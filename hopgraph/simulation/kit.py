"""Common parts of perfect agents: the parsed prompt, the questions, and mistakes drawn by a seed."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hopgraph.simulation.case import Case, Fact, Form, form_key, same, squeezed
from hopgraph.simulation.endpoint import Completion, Request, Token
from nodes.kit.rendering import UNKNOWN

NO_ANSWER = "Not Answerable"
SURE = 0.99
"""Token probability of answers and verdicts, wrong ones included: agents don't know when they err."""
_PASSAGE = re.compile(r'<passage number="(\d+)" title="([^"]*)">\n(.*?)\n</passage>', re.DOTALL)
_SENTENCE = re.compile(r"^\[(\d+\.\d+)\] (.*)$", re.MULTILINE)
_QUESTION = re.compile(r"<question>(?P<question>.*?)</question>", re.DOTALL)
CLAIM = re.compile(r'^Claim: the answer to "(?P<question>.*)" is "(?P<answer>.*)"\.$', re.MULTILINE)
_QUERY = re.compile(r"<query>(.*?)</query>", re.DOTALL)
_UNKNOWN = frozenset({"", UNKNOWN, "(no answer, see the passages)"})
Reply = Mapping[str, Any] | Completion
Role = Callable[["Agents", "Prompt", bool], Reply]
"""An agent's reply to a prompt; the last argument: whether it errs."""


@dataclass(frozen=True)
class Passage:
    """A passage as a prompt shows it."""

    number: str
    title: str
    text: str
    sentences: tuple[tuple[str, str], ...]
    """Label and text of each labelled sentence."""


class Prompt:
    """A parsed prompt: all that an agent sees."""

    def __init__(self, request: Request, find: Callable[[str], Sequence[Case]]) -> None:
        self.text = request.prompt
        self._find = find

    @cached_property
    def question(self) -> str:
        """The question in the prompt: the user's or a step's."""
        found = _QUESTION.search(self.text) or CLAIM.search(self.text)
        return found["question"].strip() if found else ""

    @cached_property
    def query(self) -> str:
        """The query in the prompt if it has one, else the question."""
        found = _QUERY.search(self.text)
        return found[1].strip() if found else self.question

    @cached_property
    def case(self) -> Case | None:
        """The case of the user's question, if the prompt has it."""
        return next(
            (case for case in self._find(self.question) if squeezed(case.question) == squeezed(self.question)), None
        )

    @cached_property
    def asked(self) -> list[tuple[Case, Form | None]]:
        """Cases and forms that the query matches; form None: the query is the case's question itself."""
        cases = [self.case] if self.case else self._find(self.query)
        found: list[tuple[Case, Form | None]] = []
        for case in cases:
            if squeezed(case.question) == squeezed(self.query):
                found.append((case, None))
            elif form := case.form_of(self.query):
                found.append((case, form))
        return found

    @cached_property
    def passages(self) -> list[Passage]:
        """The passages in the prompt."""
        return [
            Passage(number, title, text, tuple(_SENTENCE.findall(text)))
            for number, title, text in _PASSAGE.findall(self.text)
        ]

    @cached_property
    def _seen(self) -> str:
        texts = [" ".join(text for _, text in row.sentences) or row.text for row in self.passages]
        return "\n".join(squeezed(text) for text in texts)

    def shown(self, case: Case) -> set[int]:
        """Numbers of the facts whose evidence is among the passages."""
        return {fact.number for fact in case.facts if fact.stated_in(self._seen)}

    def stated(self, case: Case, rows: Iterable[tuple[str, str]]) -> tuple[dict[int, str], set[int]]:
        """Answers of earlier steps by fact number; and numbers of the facts that their questions presuppose."""
        answers: dict[int, str] = {}
        known: set[int] = set()
        for question, answer in rows:
            if answer.strip() not in _UNKNOWN and (form := case.form_of(question)):
                answers[form.fact.number] = answer.strip()
                known |= form.known if same(answer, form.fact.answer) else set()
        return answers, known


class Agents:
    """Knowledge and error rate of the agents of one simulation.

    Args:
        cases: The questions.
        wrong: Probability that a reply is wrong, 0 to 1.
        seed: With the same seed, the same request gets the same reply.
    """

    def __init__(self, cases: Sequence[Case], *, wrong: float = 0.0, seed: int = 0) -> None:
        self._cases = list(cases)
        self._wrong = wrong
        self._seed = seed
        self._by_form: dict[str, list[Case]] = {}
        for case in self._cases:
            for key in {form_key(case.question), *case.forms}:
                self._by_form.setdefault(key, []).append(case)

    def errs(self, request: Request) -> bool:
        """Whether the agent errs at a request."""
        return self._chance(request.method, request.node, request.prompt) < self._wrong

    def find(self, text: str) -> Sequence[Case]:
        """Cases whose question or sub-question the text is."""
        return self._by_form.get(form_key(text), [])

    def mistake(self, prompt: Prompt, right: str) -> str:
        """A wrong answer: the title of a shown passage, or another question's answer."""
        titles = [row.title for row in prompt.passages if row.title and not same(row.title, right)]
        if not titles:
            titles = [case.answers[0] for case in self._cases if not same(case.answers[0], right)] or ["something else"]
        return titles[int(self._chance("mistake", prompt.text) * len(titles))]

    def facts_in(self, text: str) -> list[tuple[Case, Fact]]:
        """Facts of all questions that a text states."""
        seen = squeezed(text)
        return [(case, fact) for case in self._cases for fact in case.facts if fact.stated_in(seen)]

    def _chance(self, *parts: str) -> float:
        digest = hashlib.sha256("\0".join([str(self._seed), *parts]).encode()).digest()
        return int.from_bytes(digest[:8]) / 2**64


def completion(reply: Mapping[str, Any]) -> Completion:
    """A JSON reply; a lone boolean is a separate token with the other value as its alternative."""
    text = json.dumps(reply, ensure_ascii=False)
    match = re.fullmatch(r'(\{"\w+": )(true|false)(\})', text)
    if match is None:
        return Completion(text)
    other = "false" if match[2] == "true" else "true"
    top = {match[2]: math.log(SURE), other: math.log(1 - SURE)}
    tokens: list[Token] = [(match[1], -0.01), (match[2], math.log(SURE), top), (match[3], -0.01)]
    return Completion(text, tokens)
