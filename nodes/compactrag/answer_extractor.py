"""Answer extractor: the span in the retrieved pairs that answers a sub-question (CompactRAG, Sec. 3.2.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from langgraph.runtime import Runtime

from inference.heads.exported import open_span
from inference.heads.extractor import Extraction, extract_answers
from inference.settings import get_settings
from nodes.compactrag.context import CompactContext
from nodes.compactrag.dag import in_wave
from nodes.compactrag.pairs import fetch_pairs
from nodes.compactrag.state import CompactState, SubQuestion
from nodes.kit.deadlines import within_deadlines
from nodes.kit.rendering import plain
from nodes.kit.steps import logged, step
from stores.readings import Pair


async def answer_extractor(state: CompactState, runtime: Runtime[CompactContext]) -> dict[str, Any]:
    """Extract answers for the sub-questions of the current wave, on a small local model.

    Reads the rewritten sub-question together with its pairs. Without pairs there is no answer; the ablation without
    extractor has no answers at all.
    """
    context = runtime.context
    done = {"wave": state["wave"] + 1}
    if "extractor" in context.ablate:
        return done
    wave = [item for item in in_wave(state["plan"], state["wave"]) if item["pairs"]]
    async with within_deadlines(runtime):
        pairs = await fetch_pairs(state, [ref["id"] for item in wave for ref in item["pairs"]])
        found = await asyncio.to_thread(_extract, wave, pairs)
    steps = [
        step(
            f"root/{item['number']}/answer",
            "answer",
            parent=f"root/{item['number']}",
            question=item["rewritten"],
            answer=found[item["number"]]["answer"],
            score=found[item["number"]]["probability"],
            evidence=[pairs[key].passage] if (key := found[item["number"]]["answer_from"]) else [],
        )
        for item in wave
    ]
    plan = [found.get(item["number"], item) for item in state["plan"]]
    return {"plan": plan, **done, **logged(steps)}


def _extract(wave: Sequence[SubQuestion], pairs: dict[str, Pair]) -> dict[int, SubQuestion]:
    blocks = [[_block(pairs[ref["id"]]) for ref in item["pairs"]] for item in wave]
    extractions = _extractions(
        [(item["rewritten"], "\n\n".join(texts)) for item, texts in zip(wave, blocks, strict=True)]
    )
    found: dict[int, SubQuestion] = {}
    for item, texts, extraction in zip(wave, blocks, extractions, strict=True):
        answer = plain(extraction.answer)
        source = _pair_at(extraction.start, texts) if answer else None
        found[item["number"]] = {
            **item,
            "answer": answer,
            "answer_from": "" if source is None else item["pairs"][source]["id"],
            "probability": round(extraction.probability, 4) if answer else None,
        }
    return found


def _extractions(items: list[tuple[str, str]]) -> list[Extraction]:
    """Answers by the built-in extractor, or by the checkpoint of the settings."""
    folder = get_settings().extractor
    return open_span(folder).extract(items) if folder else extract_answers(items)


def _block(pair: Pair) -> str:
    """A pair in the format of the extractor's training data."""
    return f"{plain(pair.question)}\n{plain(pair.answer)}"


def _pair_at(place: int, blocks: Sequence[str]) -> int:
    """Which block has the character at `place` of all blocks, with a blank line between two."""
    end = 0
    for number, block in enumerate(blocks):
        end += len(block) + 2
        if place < end:
            return number
    return len(blocks) - 1
