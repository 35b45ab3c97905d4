"""The perfect agent of ReAct."""

from __future__ import annotations

import re

from hopgraph.simulation.answering import next_unknown, or_mistake, reasons, the_case
from hopgraph.simulation.kit import Agents, Prompt, Reply, Role

_SEARCH = re.compile(r"^Action \d+: search\[(.*)\]$", re.MULTILINE)
_TRIES = (1, 0, 2)
"""Wordings of successive searches: keywords, the sub-question, the user's question."""


def _take_turn(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """Search for the next unknown fact, reworded after a failed search; finish once the answer follows."""
    case = the_case(prompt)
    values = case.values(prompt.shown(case))
    found, wanted = case.conclude(values), next_unknown(case, values)
    searched = [form for text in _SEARCH.findall(prompt.text) if (form := case.form_of(text)) and form.fact == wanted]
    if errs:
        answer = or_mistake(agents, prompt, found, errs)
        return {"thought": "The passages say so.", "action": "finish", "argument": answer}
    if found is None and wanted and len(searched) < len(_TRIES) and '- "search"' in prompt.text:
        words = case.ask(wanted, values, _TRIES[len(searched)])
        return {"thought": f"I need {case.description(wanted, values)}.", "action": "search", "argument": words[:200]}
    return {"thought": reasons(case, values), "action": "finish", "argument": or_mistake(agents, prompt, found, errs)}


ROLES: dict[str, Role] = {
    "agent": _take_turn,
}
