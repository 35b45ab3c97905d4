"""CompactRAG: the sub-questions in waves, with the pairs that answered them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nodes.compactrag.dag import literal
from nodes.kit.rendering import plain

if TYPE_CHECKING:
    from nodes.compactrag.state import SubQuestion
    from nodes.kit.context import Context


def picture(state: Mapping[str, Any], context: Context) -> dict[str, Any] | None:
    """The values of `compactrag.html`; None before there is a plan."""
    if not state.get("plan"):
        return None
    waves: dict[int, list[SubQuestion]] = {}
    for row in state["plan"]:
        waves.setdefault(row["wave"], []).append(row)
    return {"waves": [[_subquestion(row) for row in waves[wave]] for wave in sorted(waves)]}


def _subquestion(row: SubQuestion) -> dict[str, Any]:
    return {
        "number": row["number"],
        "question": plain(literal(row["question"])),
        "rewritten": plain(row["rewritten"]) if row["rewritten"] not in ("", literal(row["question"])) else "",
        "needs": row["depends_on"],
        "answer": plain(row["answer"]),
        "probability": row["probability"],
        "pairs": [{"text": plain(pair["preview"]), "used": pair["id"] == row["answer_from"]} for pair in row["pairs"]],
    }
