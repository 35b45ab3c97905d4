"""Answers from passages and from earlier steps, and sub-questions: what the agents of several methods do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from hopgraph.simulation.gold import Case, Fact, Form
from hopgraph.simulation.kit import NO_ANSWER, Agents, Prompt, Reply, Role

__all__ = [
    "HOP",
    "all_questions",
    "answer_from_passages",
    "answer_from_steps",
    "answer_in_passages",
    "entities",
    "next_unknown",
    "resolved",
    "subquestions",
    "the_case",
    "think_and_answer",
    "times_asked",
]

HOP = re.compile(r"^\d+\. (.*) Answer: (.*)$", re.MULTILINE)


def resolved(prompt: Prompt, case: Case, form: Form | None, stated: Mapping[int, str] | None = None) -> str | None:
    """What passages (and earlier answers) say to a query; None when they do not."""
    values = case.values(prompt.shown(case), stated, form.known if form else ())
    return values.get(form.fact.number) if form else case.conclude(values)


def answer_in_passages(prompt: Prompt) -> str | None:
    """The answer to the query from the passages, whichever question it belongs to."""
    return next((found for case, form in prompt.asked if (found := resolved(prompt, case, form)) is not None), None)


def answer_from_passages(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """From passages; without any there is nothing to answer from."""
    found = answer_in_passages(prompt)
    return {"answer": agents.mistake(prompt, found or "")[:200] if errs else (found or NO_ANSWER)[:200]}


def answer_from_steps(rows: re.Pattern[str]) -> Role:
    """From earlier questions and answers, and from the passages beside them if there are any."""

    def answer(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
        case = the_case(prompt)
        stated, known = prompt.stated(case, rows.findall(prompt.text))
        found = case.conclude(case.values(prompt.shown(case), stated, known))
        return {"answer": agents.mistake(prompt, found or "")[:200] if errs else (found or NO_ANSWER)[:200]}

    return answer


def think_and_answer(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """What the passages state, what is missing, and the answer if it follows."""
    case = the_case(prompt)
    values = case.values(prompt.shown(case))
    thoughts = [case.statement(fact, values) for fact in case.facts if fact.number in values]
    thoughts += [f"It is missing: {case.ask(wanted, values)}"] if (wanted := next_unknown(case, values)) else []
    return {"thought": " ".join(thoughts)[:800], **answer_from_passages(agents, prompt, errs)}  # type: ignore[dict-item]


def the_case(prompt: Prompt) -> Case:
    """The user's question; an agent that sees another one cannot play."""
    if prompt.case is None:
        raise ValueError(f"not a question of this simulation: {prompt.question[:100]!r}")
    return prompt.case


def next_unknown(case: Case, values: Mapping[int, str]) -> Fact | None:
    """The first fact that is unknown, and whose subject is known."""
    return next((f for f in case.facts if f.number not in values and all(n in values for n in f.needs)), None)


def times_asked(case: Case, fact: Fact, rows: Iterable[tuple[str, str]]) -> int:
    """How often earlier steps asked for a fact."""
    return sum(form.fact == fact for question, _ in rows if (form := case.form_of(question)))


def all_questions(case: Case) -> list[str]:
    """The sub-questions for all facts, in order."""
    return [case.ask(fact, {}) for fact in case.facts]


def subquestions(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """All facts, asked for; a wrong decomposition is the question itself."""
    case = the_case(prompt)
    return {"subquestions": [case.question[:200]] if errs else all_questions(case)[:8]}


def entities(case: Case, fact: Fact, values: Mapping[int, str]) -> list[str]:
    """What to search for: the subject, and the relation with it."""
    asked = case.ask(fact, values)
    if not fact.relation:
        return [asked[:100]]
    subject = asked.removesuffix("?").removeprefix(f"What is the {fact.relation} of ")
    return [subject[:200], f"{fact.relation} of {subject}"[:200]]
