"""Adder: bring in evidence that the Selector left behind (recall; PRISM, Sec. 2.3)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from nodes.kit.state import as_refs
from nodes.prism.context import PrismContext
from nodes.prism.evidence import choose_sentences, evidence_update
from nodes.prism.state import PrismState


async def adder(state: PrismState, runtime: Runtime[PrismContext]) -> dict[str, Any]:
    """Add sentences to the evidence; none is removed, and those it has already may be named again.

    Output that can't be used adds nothing, and the step says so.
    """
    current = as_refs(state.get("selected", []))
    begins_round = runtime.context.adder_first
    iteration = state["iteration"] + begins_round
    chosen = await choose_sentences(state, runtime, "prism/adder", at=f"root/adder/{iteration}")
    added = [ref for ref in chosen.refs or [] if ref not in set(current)]
    return {
        "iteration": iteration,
        "added": added,
        # What the Selector chose; before the first round it is the guess, which no Selector has seen.
        "kept": list(dict.fromkeys([*as_refs(state["kept"]), *current])) if iteration > begins_round else [],
        **({"before": current} if begins_round else {}),
        **evidence_update(state, chosen, [*current, *added], "nothing was added" if chosen.refs is None else ""),
    }
