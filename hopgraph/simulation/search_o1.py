"""Perfect agents of Search-o1."""

from __future__ import annotations

import re

from hopgraph.simulation.answering import next_unknown, or_mistake, reasons, resolved, the_case, times_asked
from hopgraph.simulation.kit import Agents, Prompt, Reply, Role
from nodes.search_o1.reasoner import NOTHING, REPEATED

_SEARCH = re.compile(r"^Search: (.*)$", re.MULTILINE)
_FOUND = re.compile(r"^Search: (.*)\nInformation: (.*)$", re.MULTILINE)


def _stated(prompt: Prompt) -> list[tuple[str, str]]:
    """Queries of the reasoning so far that were answered, with their information."""
    return [row for row in _FOUND.findall(prompt.text) if row[1] not in (NOTHING, REPEATED)]


def _reason(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """Search for the next unknown fact, reworded after a failed search; answer once the answer follows."""
    case = the_case(prompt)
    stated, known = prompt.stated(case, _stated(prompt))
    values = case.values(prompt.shown(case), stated, known)
    found, wanted = case.conclude(values), next_unknown(case, values)
    attempts = times_asked(case, wanted, [(query, "") for query in _SEARCH.findall(prompt.text)]) if wanted else 0
    if not errs and found is None and wanted and attempts < 3 and '- "search"' in prompt.text:
        text = case.ask(wanted, values, attempts)
        return {"reasoning": f"I need {case.description(wanted, values)}.", "action": "search", "text": text}
    answer = or_mistake(agents, prompt, found, errs)
    return {"reasoning": reasons(case, values), "action": "answer", "text": answer}


def _read(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """What the passages say about the query, with what the reasoning so far says."""
    answers = (resolved(prompt, case, form, prompt.stated(case, _stated(prompt))[0]) for case, form in prompt.asked)
    information = or_mistake(agents, prompt, next(filter(None, answers), None), errs)
    return {"analysis": "The passages were read for the query.", "information": information}


ROLES: dict[str, Role] = {
    "reasoner": _reason,
    "reason_in_documents": _read,
}
