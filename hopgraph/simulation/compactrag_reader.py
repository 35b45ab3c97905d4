"""The perfect reader of CompactRAG's offline stage."""

from __future__ import annotations

import re

from hopgraph.simulation.case import Fact, squeezed
from hopgraph.simulation.kit import Agents, Passage, Prompt, Reply, Role

_END = re.compile(r"(?<=[.!?]) +")


def _read(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """A pair for each fact in the passage, worded like its sub-question, and one for each of the first sentences."""
    [passage] = prompt.passages[:1] or [Passage("1", "", prompt.text, ())]
    pairs = []
    for case, fact in agents.facts_in(passage.text) if not errs else ():
        gold = {row.number: row.answer for row in case.facts}
        spelled = re.search(r"\s*".join(map(re.escape, fact.answer.split())), passage.text, re.IGNORECASE)
        pairs.append(
            {"question": case.ask(fact, gold), "answer": spelled[0] if spelled else _stating(passage.text, fact)}
        )
    for number, sentence in enumerate(_END.split(passage.text)[:6]):
        asks = f"What is {passage.title}?" if number == 0 else f"What else is said of {passage.title} ({number})?"
        pairs.append({"question": asks[:200], "answer": sentence[:300]})
    kept = list({(pair["question"], pair["answer"]): pair for pair in pairs}.values())[:16]
    facts = [f"{pair['question']} {pair['answer']}"[:300] for pair in kept]
    return {"atomic_facts": facts, "qa": kept}


def _stating(text: str, fact: Fact) -> str:
    sentences = _END.split(text)
    return next((row for row in sentences if squeezed(row) in fact.evidence), sentences[0])[:300]


ROLES: dict[str, Role] = {
    "pair_writer": _read,
    "coverage_repairer": _read,
}
