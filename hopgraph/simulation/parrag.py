"""Perfect agents of PAR-RAG."""

from __future__ import annotations

import re

from hopgraph.simulation.answering import answer_from_steps, resolved, the_case
from hopgraph.simulation.case import Case, Fact, same, squeezed
from hopgraph.simulation.kit import CLAIM, Agents, Prompt, Reply, Role

JUDGED = re.compile(r"^Answer: (?P<answer>.*)$", re.MULTILINE)
_STEP = re.compile(r'<step number="\d+">\nThought: .*\nQuestion: (.*)\nAnswer: (.*)\nEvidence: .*\n</step>')
_ORIGINAL = re.compile(r"^The user's question: (.*)$", re.MULTILINE)


def _plan(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """A step for each fact, with a thought that says what it finds; what is compared is compared in a last step."""
    case = the_case(prompt)
    steps = [_step(case, fact) for fact in case.facts]
    if len(case.last) > 1:
        steps.append({"thought": "The facts are compared.", "question": case.question, "action": "Answer"})
    if errs:
        steps = [{"thought": "It can be looked up.", "question": case.question, "action": "Retrieve"}]
    return {"steps": steps}


def _step(case: Case, fact: Fact) -> dict[str, str]:
    """The step that finds a fact. It names an answer that it needs as `this director` if no other step finds one."""
    words = {number: case.pronoun(case.fact(number)) for number in fact.needs}
    others = [case.pronoun(one) for one in case.facts if one.number != fact.number]
    unique = {number: word for number, word in words.items() if others.count(word) == 1}
    found = case.description(fact, {number: case.name(number, {}) for number in fact.needs if number not in unique})
    final = case.last == (fact,)
    return {
        "thought": f"{found[0].upper()}{found[1:]} is {'the answer' if final else 'needed'}.",
        "question": case.ask(fact, unique),
        "action": "Retrieve",
    }


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
    original = _ORIGINAL.search(prompt.text)
    for case in agents.find(original[1]) if original else ():
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
