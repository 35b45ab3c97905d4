"""Perfect agents of Self-Ask."""

from __future__ import annotations

from hopgraph.simulation.answering import HOP, answer_from_passages, next_unknown, the_case, times_asked
from hopgraph.simulation.kit import NO_ANSWER, Agents, Prompt, Reply, Role

__all__ = ["ROLES"]


def _ask_on(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """Self-Ask: the next follow-up question, or the answer once it follows or nothing more can be asked."""
    case = the_case(prompt)
    rows = HOP.findall(prompt.text)
    stated, known = prompt.stated(case, rows)
    values = case.values((), stated, known)
    found = case.conclude(values)
    if errs:
        return {"type": "final", "answer": agents.mistake(prompt, found or "")[:200]}
    wanted = next_unknown(case, values)
    attempts = times_asked(case, wanted, rows) if wanted else 0
    if found is None and wanted and attempts < 3 and '"follow_up"' in prompt.text:
        return {"type": "follow_up", "question": case.ask(wanted, values, attempts)[:200]}
    return {"type": "final", "answer": (found or NO_ANSWER)[:200]}


ROLES: dict[str, Role] = {
    "asker": _ask_on,
    "generator": answer_from_passages,
}
"""By node."""
