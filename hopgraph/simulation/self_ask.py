"""Perfect agents of Self-Ask."""

from __future__ import annotations

from hopgraph.simulation.answering import HOP, answer_from_passages, next_unknown, or_mistake, the_case, times_asked
from hopgraph.simulation.kit import Agents, Prompt, Reply, Role


def _ask_on(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """The next follow-up question, or the answer once it follows or there is nothing left to ask."""
    case = the_case(prompt)
    rows = HOP.findall(prompt.text)
    stated, known = prompt.stated(case, rows)
    values = case.values((), stated, known)
    found = case.conclude(values)
    wanted = next_unknown(case, values)
    attempts = times_asked(case, wanted, rows) if wanted else 0
    if not errs and found is None and wanted and attempts < 3 and '"follow_up"' in prompt.text:
        return {"type": "follow_up", "question": case.ask(wanted, values, attempts)}
    return {"type": "final", "answer": or_mistake(agents, prompt, found, errs)}


ROLES: dict[str, Role] = {
    "asker": _ask_on,
    "generator": answer_from_passages,
}
