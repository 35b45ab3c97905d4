"""Perfect agents of ProbTree."""

from __future__ import annotations

from hopgraph.simulation.answering import HOP, answer_in_passages, or_mistake, reasons, the_case
from hopgraph.simulation.kit import NO_ANSWER, Agents, Prompt, Reply, Role


def _split(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """All facts as sub-questions of the question, which refer to each other by number; none if the agent errs."""
    case = the_case(prompt)
    words = [] if errs or len(case.facts) < 2 else [fact.words for fact in case.facts][:4]
    return {"tree": [{"question": case.question, "subquestions": words}]}


def _by_heart(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """Nothing is known by heart."""
    return {"explanation": "I do not know.", "answer": agents.mistake(prompt, "") if errs else NO_ANSWER}


def _from_passages(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    answer = or_mistake(agents, prompt, answer_in_passages(prompt), errs)
    return {"explanation": "The passages say so.", "answer": answer}


def _from_children(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    case = the_case(prompt)
    stated, known = prompt.stated(case, HOP.findall(prompt.text))
    values = case.values((), stated, known)
    return {
        "explanation": reasons(case, values),
        "answer": or_mistake(agents, prompt, case.conclude(values), errs),
    }


ROLES: dict[str, Role] = {
    "decomposer": _split,
    "closed_book": _by_heart,
    "open_book": _from_passages,
    "child_aggregating": _from_children,
}
