"""Perfect agents of PruneRAG."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hopgraph.simulation.answering import entities, or_mistake, reasons, the_case
from hopgraph.simulation.case import Case, Fact, Form, squeezed
from hopgraph.simulation.kit import Agents, Prompt, Reply, Role


def _expand(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """Answer from the passages; else split a query with several unknowns; else name entities to search for."""
    may = {kind: f'"type": "{kind}"' in prompt.text for kind in ("answer", "query", "entity", "none")}
    slots = re.search(r'"queries": \[((?:"\.\.\."(?:, )?)+)\]', prompt.text)
    number = slots[1].count('"..."') if slots else 2
    case, form = _asked_in(prompt)
    target = form.fact if form else None
    values = case.values(prompt.shown(case), None, form.known if form else ())
    answer = values.get(target.number) if target else case.conclude(values)
    if may["answer"] and errs:
        return {"type": "answer", "answer": agents.mistake(prompt, answer or "")[:200]}
    if may["answer"] and answer is not None:
        return {"type": "answer", "answer": answer[:200]}
    granted = form.known | {n for k in form.known for n in case.below(case.fact(k))} if form else frozenset()
    needed = [fact for fact in case.needed(target) if fact.number not in granted]
    queries = _split(case, target, needed, values, number)
    if may["query"] and not errs and len(queries) == number:
        return {"type": "query", "queries": queries}
    if may["entity"]:
        wanted = next((fact for fact in needed if fact.number not in values), needed[-1])
        return {"type": "entity", "entities": entities(case, wanted, values)[:number]}
    if may["none"]:
        return {"type": "none"}
    if may["query"]:
        return {"type": "query", "queries": ([*queries, *[prompt.query] * number])[:number]}
    return {"type": "answer", "answer": ""}


def _asked_in(prompt: Prompt) -> tuple[Case, Form | None]:
    """Case and form of the query; an unknown query counts as the question."""
    return prompt.asked[0] if prompt.asked else (the_case(prompt), None)


def _split(case: Case, target: Fact | None, needed: list[Fact], values: Mapping[int, str], number: int) -> list[str]:
    """Simpler queries: unknown facts first, then what follows from them; known answers are filled in."""
    unknown = [fact for fact in needed if fact.number not in values]
    ends = [target] if target else list(case.last)
    first = [fact for fact in unknown if all(n in values for n in fact.needs)]
    # Independent ends are asked in parallel; a chain is cut after its first unknown.
    wanted = first if len(first) >= number else [*first, *(fact for fact in ends if fact not in first)]
    if len(wanted) < number:
        wanted = [*(fact for fact in needed if fact not in wanted), *wanted]
    texts = dict.fromkeys(case.ask(fact, values) for fact in wanted)
    return list(texts)[:number]


def _name_entities(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    case, form = _asked_in(prompt)
    fact = form.fact if form else case.facts[0]
    known = {number: case.fact(number).answer for number in (form.known if form else ())}
    found = [prompt.query] if errs else entities(case, fact, known)
    return {"entities": [text[:100] for text in found]}


def _summarise(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """The facts in the passages, as questions with answers."""
    facts: dict[str, str] = {}
    for case, form in prompt.asked:
        values = case.values(prompt.shown(case), None, form.known if form else ())
        facts |= {case.ask(fact, values): values[fact.number] for fact in case.facts if fact.number in values}
    return {"summary": "" if errs else " ".join(f"{ask} {value}." for ask, value in facts.items())[:800]}


def _aggregate(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    case, form = _asked_in(prompt)
    stated, known = prompt.stated(case, _results(case, prompt.text))
    known |= form.known if form else set()
    values = case.values(prompt.shown(case), stated, known)
    found = values.get(form.fact.number) if form else case.conclude(values)
    answer = or_mistake(agents, prompt, found, errs)
    if '"thought"' not in prompt.text:
        return {"answer": answer}
    return {"thought": case.statement(form.fact, values) if form and found else reasons(case, values), "answer": answer}


def _results(case: Case, text: str) -> list[tuple[str, str]]:
    """Sub-queries with their results, one a line; the line of an entity node has a summary."""
    rows = []
    keys = sorted(case.forms, key=len, reverse=True)
    for line in re.findall(r"^ *- (.*)$", text, re.MULTILINE):
        seen = squeezed(line)
        asked = next((key for key in keys if seen.startswith(key)), None)
        if asked is not None:
            rows.append((asked, _after(line, len(asked)).lstrip("?.! ")))
            continue
        for key in keys:
            answer = case.forms[key].fact.answer
            if f"{key}?{squeezed(answer)}" in seen or f"{key}{squeezed(answer)}" in seen:
                rows.append((key, answer))
    return rows


def _after(text: str, letters: int) -> str:
    """The text after its first `letters` characters, spaces not counted."""
    for place, letter in enumerate(text):
        if letters == 0:
            return text[place:]
        letters -= not letter.isspace()
    return ""


ROLES: dict[str, Role] = {
    "decomposer": _expand,
    "extractor": _name_entities,
    "summarizer": _summarise,
    "aggregator": _aggregate,
}
