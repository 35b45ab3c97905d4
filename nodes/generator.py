"""Answer Generator: write the final answer from the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from nodes.evidence import as_refs
from nodes.model import ask_model
from nodes.passages import fetch
from nodes.rendering import passage_block, plain, quoted, sentence_block
from nodes.state import Node, RunError, SentenceRef, State, Status
from nodes.steps import step

__all__ = ["ABSTENTIONS", "Answer", "generator", "read_answer"]

ABSTENTIONS = frozenset(
    {"", "not answerable", "unanswerable", "not answerable from the evidence", "cannot be determined", "unknown", "n/a"}
)
"""Answers, without case and final full stop, that say that there is none."""


class Answer(BaseModel):
    """Output of the generator."""

    answer: str = Field(max_length=300)


def generator(prompt: str, *, from_evidence: bool = True) -> Node:
    """A node that writes the answer and ends the run.

    It sees the state's `evidence`: the chosen `sentences` where the context says so and there are any, else whole
    passages.

    Args:
        prompt: Name of the prompt; it is given `question` and, with evidence, `evidence`.
        from_evidence: Whether there is evidence to write from at all.
    """

    async def generator(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        sentences = as_refs(state.get("sentences", []))
        if getattr(runtime.context, "answer_from", "passages") == "passages":
            sentences = []
        blocks = await _blocks(state, sentences) if from_evidence else []
        asked = await ask_model(
            runtime,
            node="generator",
            step="root/generator",
            prompt=prompt,
            values={"question": quoted(state["question"])},
            output=Answer,
            items=blocks,
            items_as="evidence" if from_evidence else "",
            generator=True,
        )
        answer, status = read_answer(asked.value)
        row = step(
            "root/generator",
            "answer",
            "generator",
            question=state["question"],
            answer=answer,
            verdict=status,
            evidence=[ref["id"] for ref in state["evidence"]],
            sentences=sentences,
            calls=len(asked.calls),
            truncated=asked.truncated,
            fallback=f"{asked.problem}; there is no answer" if asked.problem else "",
        )
        failed = (
            {"error": RunError(kind="model_output", message=asked.problem, node="generator")} if asked.problem else {}
        )
        return {"answer": answer, "status": status, "trajectory": [row], "ledger": asked.calls, **failed}

    return generator


def read_answer(output: Answer | None) -> tuple[str, Status]:
    """The answer, "" when there is none, and what became of the question."""
    if output is None:
        return "", "failed"
    answer = plain(output.answer)
    if answer.casefold().rstrip(".") in ABSTENTIONS:
        return "", "unanswerable"
    return answer, "answered"


async def _blocks(state: State, sentences: Sequence[SentenceRef]) -> list[str]:
    """The evidence as blocks of text, best first."""
    passages = await fetch(state, [ref["id"] for ref in state["evidence"]])
    if not sentences:
        return [passage_block(number, passage) for number, passage in enumerate(passages, start=1)]
    chosen = {p.id: sorted(i for key, i in sentences if key == p.id and 0 <= i < len(p.sentences)) for p in passages}
    return [sentence_block(number, p, chosen[p.id]) for number, p in enumerate(passages, start=1) if chosen[p.id]]
