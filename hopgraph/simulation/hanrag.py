"""Perfect agents of HANRAG."""

from __future__ import annotations

from hopgraph.simulation.answering import (
    HOP,
    answer_from_passages,
    answer_from_steps,
    next_unknown,
    subquestions,
    the_case,
    times_asked,
)
from hopgraph.simulation.case import Case
from hopgraph.simulation.kit import Agents, Prompt, Reply, Role


def _route(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """One fact: single step; several answers: compound; facts that are chained or compared: complex."""
    case = the_case(prompt)
    right = "single_step" if len(case.facts) == 1 else "compound" if case.compound else "complex"
    return {
        "route": {"single_step": "complex", "complex": "compound", "compound": "single_step"}[right] if errs else right
    }


def _decompose(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    return {"thought": "Each fact is asked for by itself.", **subquestions(agents, prompt, errs)}  # type: ignore[dict-item]


def _chain(prompt: Prompt, case: Case) -> dict[int, str]:
    stated, known = prompt.stated(case, HOP.findall(prompt.text))
    return case.values((), stated, known)


def _next_question(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """The next unknown fact, in another wording if it was asked for before."""
    case = the_case(prompt)
    values = _chain(prompt, case)
    wanted = next_unknown(case, values)
    if wanted is None or errs:
        return {"question": case.question}
    attempts = times_asked(case, wanted, HOP.findall(prompt.text))
    return {"question": case.ask(wanted, values, attempts)}


def _relevant(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """Whether the passage states the fact asked for, or one it depends on."""
    useful = any(
        prompt.shown(case)
        & {fact.number for fact in case.needed(form.fact if form else None)} - (form.known if form else set())
        for case, form in prompt.asked
    )
    return {"relevant": useful != errs}


def _sufficient(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    case = the_case(prompt)
    return {"sufficient": (case.conclude(_chain(prompt, case)) is not None) != errs}


ROLES: dict[str, Role] = {
    "router": _route,
    "decomposer": _decompose,
    "refiner": _next_question,
    "relevance_discriminator": _relevant,
    "ending_discriminator": _sufficient,
    "generator": answer_from_passages,
    "aggregator": answer_from_steps(HOP, thought=False),
    "synthesizer": answer_from_steps(HOP),
}
