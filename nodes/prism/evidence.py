"""What Selector and Adder share: candidates with labelled sentences in, chosen sentences out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, BeforeValidator, WithJsonSchema, create_model

from nodes.kit.model import Items, ask_model
from nodes.kit.passages import fetch, shortened
from nodes.kit.rendering import Labels, counted, is_label, numbered, plain, quoted, sentence_block
from nodes.kit.state import SentenceRef, as_refs
from nodes.kit.steps import Work, logged
from nodes.prism.state import PrismState
from stores.passages import Passage

_LABEL = {"type": "string", "pattern": r"^[0-9]{1,3}(\.[0-9]{1,3})?$"}
_MOST = 64
"""Labels of a reply."""


def _labels(rows: object) -> object:
    """Labels as they were given: single ones of another form are rejected later, one by one."""
    if not isinstance(rows, list):
        return rows
    # Of numbers only whole ones: JSON takes 2.10 for 2.1.
    labels = [row if isinstance(row, str) else str(row) if type(row) is int else f"{row} (no text)" for row in rows]
    if labels and not any(is_label(label) for label in labels):
        raise ValueError("none of them is a label such as 2.0")
    return labels


def _array(most: int) -> WithJsonSchema:
    return WithJsonSchema({"type": "array", "items": _LABEL, "maxItems": most})


class EvidenceLabels(BaseModel):
    """Output of Selector and Adder: labels of sentences, or numbers of whole passages.

    The schema bounds what a server generates; a reply that was made without it may be longer.
    """

    evidence: Annotated[list[str], BeforeValidator(_labels), _array(_MOST)]


@lru_cache(maxsize=_MOST)
def labels_of(sentences: int) -> type[EvidenceLabels]:
    """`EvidenceLabels` with at most as many labels as there are sentences: small models go on counting beyond them."""
    bounded = Annotated[list[str], BeforeValidator(_labels), _array(max(1, min(sentences, _MOST)))]
    return create_model("EvidenceLabels", __base__=EvidenceLabels, evidence=(bounded, ...))


@dataclass(frozen=True, kw_only=True)
class Chosen(Work):
    """Sentences that the model named; `problem` says why it named none, or which labels are not in the pool."""

    refs: list[SentenceRef] | None
    """None when its output could not be used."""
    pool: list[Passage]


async def choose_sentences(
    state: PrismState, runtime: Runtime[Any], prompt: str, *, at: str, whole_pool: bool = True
) -> Chosen:
    """Ask the model to name sentences.

    Args:
        state: The prompt is given `question`, `subquestions`, `candidates`, and `current` (labels chosen so far).
        runtime: The node's runtime.
        prompt: Name of the prompt.
        at: Id of the step.
        whole_pool: Show all candidates; else only the sentences chosen so far.
    """
    pool = await fetch(state, [ref["id"] for ref in state["pool"]])
    labels = Labels(pool)
    current = as_refs(state.get("selected", []))
    if whole_pool:
        blocks = [sentence_block(number, passage) for number, passage in enumerate(pool, start=1)]
        sentences = sum(len(passage.sentences) for passage in pool)
    else:
        sentences = len(current)
        blocks = [
            sentence_block(number, passage, indices)
            for number, passage in enumerate(pool, start=1)
            if (indices := [index for key, index in current if key == passage.id])
        ]
    asked = await ask_model(
        runtime,
        prompt,
        labels_of(sentences),
        {
            "question": quoted(state["question"]),
            "subquestions": numbered(state.get("subquestions") or [state["question"]]),
            "current": ", ".join(labels.label(ref) for ref in current) or "(none)",
        },
        at=at,
        items=Items("candidates", blocks),
    )
    refs, problem = None, asked.problem
    if asked.value is not None:
        shown = Labels(pool[: len(pool) - asked.truncated]) if whole_pool else labels
        refs, rejected = shown.refs(asked.value.evidence)
        problem = f"rejected, not in the pool: {', '.join(label[:40] for label in rejected[:10])}" if rejected else ""
    return Chosen(
        at=at, node=asked.node, calls=asked.calls, truncated=asked.truncated, problem=problem, refs=refs, pool=pool
    )


def _in_words(refs: Iterable[SentenceRef], pool: Sequence[Passage]) -> list[str]:
    """Sentences as a person reads them: title, sentence index, and how the sentence begins."""
    passages = {passage.id: passage for passage in pool}
    return [
        f"{plain(passages[key].title)} [{index}]: {shortened(passages[key].sentences[index])}"
        for key, index in refs
        if key in passages and 0 <= index < len(passages[key].sentences)
    ]


def evidence_update(state: PrismState, chosen: Chosen, now: list[SentenceRef], instead: str = "") -> dict[str, Any]:
    """What a node returns that changed the evidence from the state's to `now`."""
    old = as_refs(state.get("selected", []))
    added, removed = len(set(now) - set(old)), len(set(old) - set(now))
    changes = [f"{added} added"] * bool(added) + [f"{removed} removed"] * bool(removed)
    row = chosen.step(
        "judge",
        question=state["question"],
        answer=counted(len(now), "sentence") + (f" ({', '.join(changes)})" if old and changes else ""),
        verdict="changed" if changes else "unchanged",
        evidence=list(dict.fromkeys(key for key, _ in now)),
        sentences=now,
        instead=instead,
    )
    return {"selected": now, "selected_text": _in_words(now, chosen.pool), **logged(row, chosen)}
