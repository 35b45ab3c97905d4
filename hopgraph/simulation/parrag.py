"""Perfect agents of PAR-RAG."""

from __future__ import annotations

import re

from hopgraph.simulation.answering import all_questions, answer_from_steps, resolved, the_case
from hopgraph.simulation.case import same, squeezed
from hopgraph.simulation.kit import CLAIM, Agents, Prompt, Reply, Role

JUDGED = re.compile(r"^Answer: (?P<answer>.*)$", re.MULTILINE)
_STEP = re.compile(r'<step number="\d+">\nThought: .*\nQuestion: (.*)\nAnswer: (.*)\nEvidence: .*\n</step>')


def _plan(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    case = the_case(prompt)
    steps = [
        {"thought": "A fact that the answer rests on.", "question": text, "action": "Retrieve"}
        for text in all_questions(case)
    ]
    if len(case.last) > 1:
        steps.append({"thought": "The facts are compared.", "question": case.question, "action": "Answer"})
    if errs:
        steps = [{"thought": "It can be looked up.", "question": case.question, "action": "Retrieve"}]
    return {"steps": steps}


def _act(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """Answer a step from passages and cite them, or from the steps before it."""
    if "<step " in prompt.text:
        return answer_from_steps(_STEP)(agents, prompt, errs) if prompt.case else {"answer": "I don't know"}
    for case, form in prompt.asked:
        found = resolved(prompt, case, form)
        if found is not None and not errs:
            needed = case.needed(form.fact if form else None)
            texts = [(row.number, squeezed(row.text)) for row in prompt.passages]
            cited = [number for number, text in texts if any(fact.stated_in(text) for fact in needed)]
            return {"answer": f"{found[:200]} {''.join(f'[{number}]' for number in cited[:8])}"}
    if errs and prompt.passages:
        return {"answer": f"{agents.mistake(prompt, '')[:200]} [{prompt.passages[0].number}]"}
    return {"answer": "I don't know"}


def _is_right(prompt: Prompt) -> bool:
    """Whether the passages give the answer that is judged."""
    found = JUDGED.search(prompt.text) or CLAIM.search(prompt.text)
    answer = found["answer"] if found else ""
    return any(
        (right := resolved(prompt, case, form)) is not None and same(right, answer) for case, form in prompt.asked
    )


def _score(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    return {"score": float(_is_right(prompt) != errs)}


def _attribute(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    return {"label": "attributable" if _is_right(prompt) != errs else "extrapolatory"}


def _refine(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """The next step's question with the answers so far filled in."""
    for case in agents.find(prompt.question):
        form = case.form_of(prompt.question)
        if form is not None and not errs:
            stated, known = prompt.stated(case, _STEP.findall(prompt.text))
            return {"question": case.ask(form.fact, case.values((), stated, known))}
    return {"question": prompt.question}


ROLES: dict[str, Role] = {
    "planner": _plan,
    "actor": _act,
    "reviser": _act,
    "accuracy_judge": _score,
    "attribution_judge": _attribute,
    "refiner": _refine,
    "generator": answer_from_steps(_STEP),
}
