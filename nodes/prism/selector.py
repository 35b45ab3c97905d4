"""Selector: keep only the evidence sentences that the sub-questions need (precision; PRISM, Sec. 2.2)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from nodes.kit.place import node_name
from nodes.kit.state import SentenceRef, as_refs
from nodes.prism.context import PrismContext
from nodes.prism.evidence import Chosen, choose_sentences, evidence_update
from nodes.prism.state import PrismState

FALLBACK_PASSAGES = 5


async def selector(state: PrismState, runtime: Runtime[PrismContext]) -> dict[str, Any]:
    """Select from all candidates the first time, and prune the evidence after that.

    Pruning removes and never adds: a sentence that was not chosen before is ignored. Output that can't be used leaves
    the evidence as it is; in the first selection the best passages are taken whole. The step says so.
    """
    current = as_refs(state.get("selected", []))
    begins_round = not runtime.context.adder_first
    iteration = state["iteration"] + begins_round
    at = f"root/selector/{iteration}"
    round_ = {"iteration": iteration, "added": [], **({"before": current} if begins_round else {})}
    if iteration == 1 and begins_round:
        return {**round_, **await _select(state, runtime, "prism/selector", at)}
    if not current:
        nothing = Chosen(at=at, node=node_name(), problem="no evidence to prune", refs=[], pool=[])
        return {**round_, **evidence_update(state, nothing, [])}
    chosen = await choose_sentences(state, runtime, "prism/selector_prune", at=at, whole_pool=False)
    if chosen.refs is None:
        return {**round_, **evidence_update(state, chosen, current, "nothing was pruned")}
    return {**round_, **evidence_update(state, chosen, [ref for ref in current if ref in set(chosen.refs)])}


async def setwise(state: PrismState, runtime: Runtime[PrismContext]) -> dict[str, Any]:
    """Select from all candidates, in one call (SetR, a condition that the paper compares with)."""
    current, iteration = as_refs(state.get("selected", [])), state["iteration"] + 1
    selected = await _select(state, runtime, "prism/setwise", f"root/setwise/{iteration}")
    return {"iteration": iteration, "added": [], "before": current, **selected}


async def guess(state: PrismState, runtime: Runtime[PrismContext]) -> dict[str, Any]:
    """Guess evidence before the first round, where the paper's example starts (App. A.3)."""
    chosen = await choose_sentences(state, runtime, "prism/guess", at="root/guess")
    return evidence_update(state, chosen, chosen.refs or [], "no evidence was guessed" if chosen.refs is None else "")


async def _select(state: PrismState, runtime: Runtime[PrismContext], prompt: str, at: str) -> dict[str, Any]:
    chosen = await choose_sentences(state, runtime, prompt, at=at)
    if chosen.refs is None:
        best = f"the best {FALLBACK_PASSAGES} passages were taken whole"
        return evidence_update(state, chosen, _best_passages(chosen), best)
    return evidence_update(state, chosen, chosen.refs)


def _best_passages(chosen: Chosen) -> list[SentenceRef]:
    best = chosen.pool[:FALLBACK_PASSAGES]
    return [(passage.id, index) for passage in best for index in range(len(passage.sentences))]
