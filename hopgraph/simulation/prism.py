"""Perfect agents of PRISM."""

from __future__ import annotations

import re
from collections.abc import Callable

from hopgraph.simulation.answering import answer_from_passages, subquestions, the_case
from hopgraph.simulation.case import squeezed
from hopgraph.simulation.kit import Agents, Prompt, Reply, Role


def _labels(prompt: Prompt, wanted: Callable[[str, str], bool]) -> list[str]:
    return [label for row in prompt.passages for label, text in row.sentences if wanted(label, text)]


def _gold_labels(prompt: Prompt) -> list[str]:
    case = the_case(prompt)
    evidence = {text for fact in case.facts for text in fact.evidence}
    return _labels(prompt, lambda _, text: squeezed(text) in evidence)


def _select(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """The sentences that state a fact. An error drops the first of them and adds another sentence."""
    gold = _gold_labels(prompt)
    if errs:
        others = _labels(prompt, lambda label, _: label not in gold)
        return {"evidence": [*gold[1:], *others[:1]][:32]}
    return {"evidence": gold[:32]}


def _add(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    line = re.search(r"^Current evidence: (.*)$", prompt.text, re.MULTILINE)
    current = re.findall(r"\d+\.\d+", line[1]) if line else []
    missing = [label for label in _gold_labels(prompt) if label not in current]
    if errs:
        gold = _gold_labels(prompt)
        missing = _labels(prompt, lambda label, _: label not in gold and label not in current)[:1]
    return {"evidence": missing[:32]}


ROLES: dict[str, Role] = {
    "analyzer": subquestions,
    "guess": _select,
    "selector": _select,
    "setwise": _select,
    "adder": _add,
    "generator": answer_from_passages,
}
