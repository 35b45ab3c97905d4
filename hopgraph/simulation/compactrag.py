"""Perfect agents of CompactRAG's online stage."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hopgraph.simulation.answering import entities, reasons, the_case
from hopgraph.simulation.case import Case, Fact, form_key, squeezed
from hopgraph.simulation.kit import Agents, Prompt, Reply, Role

_PAIR = re.compile(r'<evidence subquestion="[^"]*">(.*?)</evidence>', re.DOTALL)


def _graph(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """Sub-questions with their dependencies; a needed answer is written as `this director`."""
    case = the_case(prompt)
    rows = []
    for fact in case.facts:
        text = case.ask(fact, {number: case.pronoun(case.fact(number)) for number in fact.needs})
        rows.append({"question": text, "depends_on": list(fact.needs)})
    return {"subquestions": [{"question": case.question, "depends_on": []}] if errs else rows[:16]}


def _synthesise(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """Answer from the pairs; the extractor's spans are not used."""
    case = the_case(prompt)
    pairs = [squeezed(text) for text in _PAIR.findall(prompt.text)]
    gold = {fact.number: fact.answer for fact in case.facts}
    seen = {fact.number for fact in case.facts if any(_pair_states(pair, case, fact, gold) for pair in pairs)}
    values = case.values(seen)
    found = case.conclude(values)
    answer = agents.mistake(prompt, found or "") if errs else found or "I don't know"
    return {"thought": reasons(case, values), "answer": answer[:200]}


def _pair_states(pair: str, case: Case, fact: Fact, gold: Mapping[int, str]) -> bool:
    if fact.stated_in(pair):
        return True
    subject = entities(case, fact, gold)[0]
    asks = form_key(case.ask(fact, gold))
    return squeezed(fact.answer) in pair and (asks in pair or bool(fact.relation and squeezed(subject) in pair))


ROLES: dict[str, Role] = {
    "decomposer": _graph,
    "generator": _synthesise,
}
