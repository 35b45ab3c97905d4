"""Pair collector: input of the synthesis, and the passages of its pairs as evidence (CompactRAG, Sec. 3.2.4)."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from nodes.compactrag.context import CompactContext
from nodes.compactrag.pairs import fetch_pairs
from nodes.compactrag.state import CompactState, PairRef
from nodes.kit.passages import fetch, reference
from nodes.kit.rendering import quoted


async def pair_collector(state: CompactState) -> dict[str, Any]:
    """Make the passages of the pairs the run's evidence.

    Passages whose pairs answers were extracted from come first, by sub-question; then those of the other pairs, rank by
    rank.
    """
    sources = {item["answer_from"] for item in state["plan"]}
    ranked = _ranked(state)
    chosen = [ref for item in state["plan"] for ref in item["pairs"] if ref["id"] == item["answer_from"]]
    others = [ref for ref in ranked if ref["id"] not in sources]
    scores: dict[str, float] = {}
    for ref in [*chosen, *others]:
        scores[ref["passage"]] = max(ref["score"], scores.get(ref["passage"], ref["score"]))
    passages = await fetch(state, scores)
    return {"evidence": [reference(passage, scores[passage.id], "dense") for passage in passages]}


async def pair_blocks(state: CompactState, context: Any) -> list[str]:
    """The pairs, best first, each once and with the numbers of the sub-questions that it was found for."""
    found_for: dict[str, list[int]] = {}
    for item in state["plan"]:
        for ref in item["pairs"]:
            found_for.setdefault(ref["id"], []).append(item["number"])
    pairs = await fetch_pairs(state, [ref["id"] for ref in _ranked(state)])
    return [
        f'<evidence subquestion="{", ".join(map(str, found_for[key]))}">{quoted(pair.question)} '
        f"{quoted(pair.answer)}</evidence>"
        for key, pair in pairs.items()
    ]


def resolved(state: CompactState) -> dict[str, str]:
    """The sub-questions as searched, with their answers."""
    lines = []
    for item in state["plan"]:
        answer = f" -> {quoted(item['answer'])}" if item["answer"] else ""
        lines.append(f"{item['number']}. {quoted(item['rewritten'])}{answer}")
    return {"subquestions": "\n".join(lines)}


def synthesizer_prompt(context: CompactContext) -> str:
    """The prompt of the synthesis; without the extractor, one that speaks of no extracted answers (Table 3)."""
    return "compactrag/synthesizer_pairs" if "extractor" in context.ablate else "compactrag/synthesizer"


def _ranked(state: CompactState) -> list[PairRef]:
    """All pairs rank by rank: every sub-question's first, then every one's second, each pair once."""
    ranks = zip_longest(*(item["pairs"] for item in state["plan"]))
    best: dict[str, PairRef] = {}
    for ref in (ref for rank in ranks for ref in rank if ref is not None):
        best.setdefault(ref["id"], ref)
    return list(best.values())
