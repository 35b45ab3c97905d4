"""Making trajectory steps."""

from __future__ import annotations

from collections.abc import Sequence

from nodes.kit.state import SentenceRef, Step, StepKind

__all__ = ["step"]


def step(
    id: str,
    kind: StepKind,
    node: str,
    *,
    parent: str = "root",
    question: str = "",
    answer: str = "",
    verdict: str = "",
    score: float | None = None,
    evidence: Sequence[str] = (),
    sentences: Sequence[SentenceRef] = (),
    calls: int = 0,
    searches: int = 0,
    truncated: int = 0,
    fallback: str = "",
) -> Step:
    """A step; what is not given is empty."""
    return Step(
        id=id,
        parent=parent,
        kind=kind,
        node=node,
        question=question,
        answer=answer,
        verdict=verdict,
        score=score,
        evidence=list(evidence),
        sentences=list(sentences),
        calls=calls,
        searches=searches,
        truncated=truncated,
        fallback=fallback,
    )
