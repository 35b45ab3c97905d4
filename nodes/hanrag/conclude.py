"""The end of a single-step question: its one hop's answer is the run's (HANRAG, Sec. 4.1)."""

from __future__ import annotations

from typing import Any

from nodes.chain import chain_evidence
from nodes.hanrag.state import HanState
from nodes.kit.state import RunError

__all__ = ["conclude"]


async def conclude(state: HanState) -> dict[str, Any]:
    """Make the answer of the only hop the run's."""
    [hop] = state["chain"]
    problem = hop["problem"]
    return {
        "answer": hop["answer"],
        "status": "failed" if problem else "answered" if hop["answer"] else "unanswerable",
        "error": RunError(kind="model_output", message=problem, node="generator") if problem else None,
        "evidence": chain_evidence(state),
    }
