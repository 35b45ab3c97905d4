"""Rewriter: insert answers into the sub-questions that need them, with a small local model (CompactRAG, Sec. 3.2.3)."""

from __future__ import annotations

import asyncio
from typing import Any

from langgraph.runtime import Runtime

from inference.heads.exported import open_rewriter
from inference.heads.rewriter import find_answer, rewrite_with_answers
from inference.settings import get_settings
from nodes.compactrag.context import CompactContext
from nodes.compactrag.dag import fill_references, in_wave, literal, references
from nodes.compactrag.state import CompactState, SubQuestion
from nodes.kit.deadlines import within_deadlines
from nodes.kit.rendering import plain
from nodes.kit.steps import logged, step

_NUMBER_SIGN = "\N{FULLWIDTH NUMBER SIGN}"


async def rewriter(state: CompactState, runtime: Runtime[CompactContext]) -> dict[str, Any]:
    """Rewrite the sub-questions of the current wave.

    An answer takes the place of its reference (`#1`); where there is none, the trained rewriter finds the words that
    stand for it ("this film", "her"). Of several answers each is put in after the other, and none replaces one before
    it. Nothing is rewritten with an answer that was not found, or that the text already names. The ablations append the
    answers, or do nothing.
    """
    context = runtime.context
    wave = in_wave(state["plan"], state["wave"])
    answers = {item["number"]: item["answer"] for item in state["plan"]}
    if "extractor" in context.ablate:
        texts = [literal(item["question"]) for item in wave]
    elif "rewriter" in context.ablate:
        texts = [" ".join([literal(i["question"]), *filter(None, (answers[n] for n in i["depends_on"]))]) for i in wave]
    else:
        async with within_deadlines(runtime):
            texts = await asyncio.to_thread(_rewrite, wave, answers)
    by_number = dict(zip([item["number"] for item in wave], texts, strict=True))
    steps = [
        step(
            f"root/{item['number']}",
            "decompose",
            question=literal(item["question"]),
            answer=by_number[item["number"]] if by_number[item["number"]] != literal(item["question"]) else "",
        )
        for item in wave
    ]
    plan = [{**item, "rewritten": by_number.get(item["number"], item["rewritten"])} for item in state["plan"]]
    return {"plan": plan, **logged(steps)}


def _rewrite(wave: list[SubQuestion], answers: dict[int, str]) -> list[str]:
    """Sub-questions with the answers that they need and do not name, by our rewriter or the settings' checkpoint."""
    texts = [fill_references(item, answers) for item in wave]
    missing = [[answers[n] for n in item["depends_on"] if answers[n] and n not in references(item)] for item in wave]
    folder = get_settings().rewriter
    if not folder:
        return [_put_in(text, names) for text, names in zip(texts, missing, strict=True)]
    for place in range(max(map(len, missing), default=0)):
        rows = [row for row, names in enumerate(missing) if place < len(names)]
        rows = [row for row in rows if not find_answer(texts[row], missing[row][place])]
        rewritten = open_rewriter(folder).rewrite([(texts[row], missing[row][place]) for row in rows])
        for row, text in zip(rows, rewritten, strict=True):
            texts[row] = plain(text) or texts[row]
    return texts


def _put_in(question: str, answers: list[str]) -> str:
    names = [answer for answer in answers if not find_answer(question, answer)]
    if not names:
        return question
    # What still looks like a reference is a number of the question's own, and the rewriter must not take it for one.
    text = rewrite_with_answers(question.replace("#", _NUMBER_SIGN), names).replace(_NUMBER_SIGN, "#")
    return plain(text) or question
