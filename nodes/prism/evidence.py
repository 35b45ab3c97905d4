"""What Selector and Adder share: candidates with labelled sentences in, chosen sentences out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, BeforeValidator, WithJsonSchema

from inference.ledger import Call
from nodes.kit.model import Items, ask_model
from nodes.kit.passages import fetch, shortened
from nodes.kit.rendering import Labels, is_label, numbered, plain, quoted, sentence_block
from nodes.kit.state import SentenceRef, Step, as_refs
from nodes.kit.steps import step
from nodes.prism.state import PrismState
from stores.passages import Passage

__all__ = ["Chosen", "EvidenceLabels", "choose_sentences", "evidence_step", "in_words"]


_LABEL = {"type": "string", "pattern": r"^[0-9]{1,3}(\.[0-9]{1,3})?$"}


def _labels(rows: object) -> object:
    """Labels as they were given: single ones of another form are rejected later, one by one."""
    if not isinstance(rows, list):
        return rows
    # Of numbers only whole ones: JSON takes 2.10 for 2.1.
    labels = [row if isinstance(row, str) else str(row) if type(row) is int else f"{row} (no text)" for row in rows]
    if labels and not any(is_label(label) for label in labels):
        raise ValueError("none of them is a label such as 2.0")
    return labels


class EvidenceLabels(BaseModel):
    """Output of Selector and Adder: labels of sentences, or numbers of whole passages.

    The schema bounds what a server generates; a reply that was made without it may be longer.
    """

    evidence: Annotated[
        list[str], BeforeValidator(_labels), WithJsonSchema({"type": "array", "items": _LABEL, "maxItems": 64})
    ]


@dataclass(frozen=True)
class Chosen:
    """Sentences that the model named."""

    refs: list[SentenceRef] | None
    """None when its output could not be used."""
    pool: list[Passage]
    problem: str
    """Why `refs` is None, or which labels name no sentence of the pool."""
    calls: list[Call]
    truncated: int


async def choose_sentences(
    state: PrismState, runtime: Runtime[Any], *, node: str, step: str, prompt: str, whole_pool: bool = True
) -> Chosen:
    """Ask the model to name sentences.

    Args:
        state: The prompt is given `question`, `subquestions`, `candidates`, and `current` (labels chosen so far).
        runtime: The node's runtime.
        node: For the ledger.
        step: Id of the step.
        prompt: Name of the prompt.
        whole_pool: Show all candidates; else only the sentences chosen so far.
    """
    pool = await fetch(state, [ref["id"] for ref in state["pool"]])
    labels = Labels(pool)
    current = as_refs(state.get("selected", []))
    if whole_pool:
        blocks = [sentence_block(number, passage) for number, passage in enumerate(pool, start=1)]
    else:
        blocks = [
            sentence_block(number, passage, indices)
            for number, passage in enumerate(pool, start=1)
            if (indices := [index for key, index in current if key == passage.id])
        ]
    asked = await ask_model(
        runtime,
        prompt,
        EvidenceLabels,
        {
            "question": quoted(state["question"]),
            "subquestions": numbered(state.get("subquestions") or [state["question"]]),
            "current": ", ".join(labels.label(ref) for ref in current) or "(none)",
        },
        at=step,
        items=Items("candidates", blocks),
    )
    if asked.value is None:
        return Chosen(None, pool, asked.problem, asked.calls, asked.truncated)
    shown = Labels(pool[: len(pool) - asked.truncated]) if whole_pool else labels
    refs, rejected = shown.refs(asked.value.evidence)
    problem = f"rejected, not in the pool: {', '.join(label[:40] for label in rejected[:10])}" if rejected else ""
    return Chosen(refs, pool, problem, asked.calls, asked.truncated)


def in_words(refs: Iterable[SentenceRef], pool: Sequence[Passage]) -> list[str]:
    """Sentences as a person reads them: title, sentence index, and how the sentence begins."""
    passages = {passage.id: passage for passage in pool}
    return [
        f"{plain(passages[key].title)} [{index}]: {shortened(passages[key].sentences[index])}"
        for key, index in refs
        if key in passages and 0 <= index < len(passages[key].sentences)
    ]


def evidence_step(
    step_id: str, node: str, state: PrismState, chosen: Chosen, now: list[SentenceRef], fallback: str = ""
) -> Step:
    """The step of a node that changed the evidence from the state's to `now`."""
    old = as_refs(state.get("selected", []))
    added, removed = len(set(now) - set(old)), len(set(old) - set(now))
    changes = [f"{added} added"] * bool(added) + [f"{removed} removed"] * bool(removed)
    return step(
        step_id,
        "judge",
        question=state["question"],
        answer=f"{len(now)} sentence{'s' * (len(now) != 1)}" + (f" ({', '.join(changes)})" if old and changes else ""),
        verdict="changed" if changes else "unchanged",
        evidence=list(dict.fromkeys(key for key, _ in now)),
        sentences=now,
        calls=len(chosen.calls),
        truncated=chosen.truncated,
        fallback="; ".join(filter(None, [chosen.problem, fallback])),
    )
