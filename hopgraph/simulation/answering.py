"""Roles and helpers that the agents of several methods share: answers, sub-questions, chains of thought."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime

from hopgraph.evaluation.metrics import normalise
from hopgraph.simulation.case import Case, Fact, Form, same, squeezed
from hopgraph.simulation.kit import NO_ANSWER, Agents, Prompt, Reply, Role

HOP = re.compile(r"^\d+\. (.*) Answer: (.*)$", re.MULTILINE)
_DAYS = ("%B %d, %Y", "%d %B %Y")
DATES = (*_DAYS, "%B %Y", "%Y")
"""Formats of dates; the year is at the end."""


def resolved(prompt: Prompt, case: Case, form: Form | None, stated: Mapping[int, str] | None = None) -> str | None:
    """The answer to a query from the passages and earlier answers; None if they don't give it."""
    values = case.values(prompt.shown(case), stated, form.known if form else ())
    return values.get(form.fact.number) if form else case.conclude(values)


def answer_in_passages(prompt: Prompt) -> str | None:
    """The answer to the prompt's query from its passages; None if they don't give it."""
    return next((found for case, form in prompt.asked if (found := resolved(prompt, case, form)) is not None), None)


def or_mistake(agents: Agents, prompt: Prompt, found: str | None, errs: bool) -> str:
    """The answer found (`NO_ANSWER` if None), or a wrong one if the agent errs; at most 200 characters."""
    return (agents.mistake(prompt, found or "") if errs else found or NO_ANSWER)[:200]


def answer_from_passages(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """Answer from the passages."""
    return {"answer": or_mistake(agents, prompt, answer_in_passages(prompt), errs)}


def answer_from_steps(rows: re.Pattern[str], *, thought: bool = True) -> Role:
    """A role that answers from earlier steps, matched by `rows` as question and answer, and from any passages.

    Args:
        rows: Matches a step.
        thought: Whether it says first what the answer follows from.
    """

    def answer(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
        case = the_case(prompt)
        stated, known = prompt.stated(case, rows.findall(prompt.text))
        values = case.values(prompt.shown(case), stated, known)
        why = {"thought": reasons(case, values)} if thought else {}
        return {**why, "answer": or_mistake(agents, prompt, case.conclude(values), errs)}

    return answer


def reasons(case: Case, values: Mapping[int, str]) -> str:
    """What the answer follows from: the last fact, or the comparison; or what is not known."""
    if case.conclude(values) is not None:
        return (comparison(case, values) or case.statement(case.last[0], values))[:600]
    wanted = next_unknown(case, values) or case.last[0]
    text = case.description(wanted, values)
    return f"{text[0].upper()}{text[1:]} is not known."[:600]


def comparison(case: Case, values: Mapping[int, str], answer: str | None = None) -> str:
    """The values that are compared, each after what has it, how they compare, and of dates which is asked for; "" where
    nothing is compared.

    Args:
        case: The question.
        values: Values of its facts, by number.
        answer: The answer that follows from them; by default what the case says.
    """
    found = [values.get(fact.number, "") for fact in case.last]
    answer = answer or case.conclude(values)
    if len(found) < 2 or answer is None:
        return ""
    names = [re.sub(r" \([^()]*\)$", "", name) for name in case.compared]
    if all(names):
        said = [f"{name}: {value}." for name, value in zip(names, found, strict=True)]
    else:
        said = [case.statement(fact, values) for fact in case.last]
    if normalise(answer) in ("yes", "no"):
        said.append("They are the same." if normalise(answer) == "yes" else "They are not the same.")
    elif len(found) == 2 and all(names) and (first := earlier(*found)) is not None:
        early, late = found[first], found[1 - first]
        if early[-4:] != late[-4:]:
            early, late = early[-4:], late[-4:]
        said.append(f"{early} is before {late}.")
        said.append(f"The earlier is {names[first]}, the later is {names[1 - first]}.")
        asked = [number for number, name in enumerate(case.compared) if same(answer, name)]
        if len(asked) == 1:
            side = "earlier" if asked[0] == first else "later"
            said.append(f"The question asks for the {side}. The {side} is {names[asked[0]]}.")
    return " ".join(said)


def earlier(one: str, other: str) -> int | None:
    """Which of two dates is the earlier, 0 or 1; None if they are not dates, or it can't be told."""
    days = dated(one), dated(other)
    if days[0] is None or days[1] is None:
        return None
    (a, form), (b, other_form) = days[0], days[1]
    if form != other_form and not {form, other_form} <= {*_DAYS}:  # a year alone is no day of it
        a, b = a.replace(month=1, day=1), b.replace(month=1, day=1)
    return None if a == b else int(b < a)


def dated(text: str) -> tuple[date, str] | None:
    """The date that a text is, and its format among `DATES`; None if it is none."""
    for form in DATES:
        with suppress(ValueError):
            return datetime.strptime(text, form).date(), form
    return None


def think_and_answer(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """A thought (facts stated, next missing fact), and the answer if it follows."""
    case = the_case(prompt)
    values = case.values(prompt.shown(case))
    thoughts = [case.statement(fact, values) for fact in case.facts if fact.number in values]
    thoughts += [compared] if (compared := comparison(case, values)) else []
    thoughts += [f"It is missing: {case.ask(wanted, values)}"] if (wanted := next_unknown(case, values)) else []
    return {"thought": " ".join(thoughts)[:800], **answer_from_passages(agents, prompt, errs)}  # type: ignore[dict-item]


def the_case(prompt: Prompt) -> Case:
    """The case of the user's question.

    Raises:
        ValueError: The prompt has another question.
    """
    if prompt.case is None:
        raise ValueError(f"not a question of this simulation: {prompt.question[:100]!r}")
    return prompt.case


def next_unknown(case: Case, values: Mapping[int, str]) -> Fact | None:
    """The first unknown fact whose needed facts are known."""
    return next((f for f in case.facts if f.number not in values and all(n in values for n in f.needs)), None)


def times_asked(case: Case, fact: Fact, rows: Iterable[tuple[str, str]]) -> int:
    """Number of earlier steps that asked for a fact."""
    return sum(form.fact == fact for question, _ in rows if (form := case.form_of(question)))


def all_questions(case: Case) -> list[str]:
    """The sub-questions for all facts, in order."""
    return [case.ask(fact, {}) for fact in case.facts]


def subquestions(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """The sub-questions for all facts; the question itself if the agent errs."""
    case = the_case(prompt)
    return {"subquestions": [case.question] if errs else all_questions(case)[:8]}


def entities(case: Case, fact: Fact, values: Mapping[int, str]) -> list[str]:
    """Search terms for a fact: its subject, and the relation with the subject."""
    if not fact.relation:
        return [case.ask(fact, values)[:100]]
    subject = case.subject(fact, values)
    return [subject, f"{fact.relation} of {subject}"]


def reason(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """The next sentence of a chain of thought: a new fact from the passages, the next unknown fact, or the answer."""
    case = the_case(prompt)
    said = [squeezed(line) for line in re.findall(r"^\d+\. (.*)$", prompt.text, re.MULTILINE)]
    values = case.values(prompt.shown(case), _false_statements(case, said))
    found = case.conclude(values)
    if found is not None and not errs:
        return {"sentence": f"So the answer is: {found}."[:400]}
    new = [case.statement(f, values) for f in case.facts if f.number in values]
    new = [text for text in new if not any(squeezed(text).startswith(line) for line in said)]
    wanted = next_unknown(case, values)
    if errs and wanted:
        return {"sentence": case.statement(wanted, {**values, wanted.number: agents.mistake(prompt, "")})[:400]}
    if new:
        return {"sentence": new[0][:400]}
    sentence = f"Next to be found out: {case.ask(wanted, values).rstrip('?.! ')}." if wanted else ""
    if not sentence or any(squeezed(sentence).startswith(line) for line in said):
        sentence = f"So the answer is: {NO_ANSWER}."
    return {"sentence": sentence[:400]}


def _false_statements(case: Case, said: Sequence[str]) -> dict[int, str]:
    """Wrong values that earlier sentences state, by fact number; the agent believes them."""
    found = {}
    for fact in case.facts:
        start = squeezed(case.statement(fact, {row.number: row.answer for row in case.facts})).removesuffix(
            f"{squeezed(fact.answer)}."
        )
        rest = next((line.removeprefix(start) for line in said if fact.relation and line.startswith(start)), "")
        if rest and not rest.startswith(squeezed(fact.answer)):
            found[fact.number] = rest.rstrip(".")
    return found
