"""Adder: bring in evidence that the Selector left behind (recall)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from nodes.kit.state import Node, as_refs
from nodes.prism.evidence import choose_sentences, evidence_step, in_words
from nodes.prism.state import PrismState

__all__ = ["adder"]


def adder(prompt: str) -> Node:
    """A node that adds sentences to the evidence and never removes one.

    Output that can't be used adds nothing, and the step says so.

    Args:
        prompt: Name of the prompt.
    """

    async def adder(state: PrismState, runtime: Runtime[Any]) -> dict[str, Any]:
        current = as_refs(state.get("selected", []))
        begins_round = runtime.context.adder_first
        iteration = state.get("iteration", 0) + begins_round
        step_id = f"root/adder/{iteration}"
        chosen = await choose_sentences(state, runtime, node="adder", step=step_id, prompt=prompt)
        known = set(current)
        added = [ref for ref in chosen.refs or [] if ref not in known]
        now = [*current, *added]
        fallback = "nothing was added" if chosen.refs is None else ""
        return {
            "iteration": iteration,
            "selected": now,
            "selected_text": in_words(now, chosen.pool),
            "added": added,
            # What the Selector chose; before the first round it is the guess, which no Selector has seen.
            "kept": list(dict.fromkeys([*as_refs(state["kept"]), *current])) if iteration > begins_round else [],
            **({"before": current} if begins_round else {}),
            "trajectory": [evidence_step(step_id, "adder", state, chosen, now, fallback)],
            "ledger": chosen.calls,
        }

    return adder
