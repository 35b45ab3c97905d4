"""A chain of thought that grows by a sentence at a time (IRCoT, and Adaptive-RAG, which takes it over)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hopgraph.simulation.answering import next_unknown, the_case
from hopgraph.simulation.gold import Case, squeezed
from hopgraph.simulation.kit import NO_ANSWER, Agents, Prompt, Reply

__all__ = ["reason"]


def reason(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """IRCoT: a fact from the passages that no sentence states; then the conclusion, or what has to be found."""
    case = the_case(prompt)
    said = [squeezed(line) for line in re.findall(r"^\d+\. (.*)$", prompt.text, re.MULTILINE)]
    values = case.values(prompt.shown(case), _false_statements(case, said))
    found = case.conclude(values)
    if found is not None and not errs:
        return {"sentence": f"So the answer is: {found}."[:400]}
    new = [case.statement(f, values) for f in case.facts if f.number in values]
    new = [text for text in new if not any(squeezed(text).startswith(line) for line in said)]
    wanted = next_unknown(case, values)
    if errs and wanted:
        return {"sentence": case.statement(wanted, {**values, wanted.number: agents.mistake(prompt, "")})[:400]}
    if new:
        return {"sentence": new[0][:400]}
    sentence = f"Next to be found out: {case.ask(wanted, values).rstrip('?.! ')}." if wanted else ""
    if not sentence or any(squeezed(sentence).startswith(line) for line in said):
        sentence = f"So the answer is: {NO_ANSWER}."
    return {"sentence": sentence[:400]}


def _false_statements(case: Case, said: Sequence[str]) -> dict[int, str]:
    """What wrong sentences before made of facts: who reads them takes them for true."""
    found = {}
    for fact in case.facts:
        start = squeezed(case.statement(fact, {row.number: row.answer for row in case.facts})).removesuffix(
            f"{squeezed(fact.answer)}."
        )
        rest = next((line.removeprefix(start) for line in said if fact.relation and line.startswith(start)), "")
        if rest and not rest.startswith(squeezed(fact.answer)):
            found[fact.number] = rest.rstrip(".")
    return found
