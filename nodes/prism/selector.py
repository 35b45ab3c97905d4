"""Selector: keep only the evidence sentences that the sub-questions need (precision)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from nodes.kit.state import Node, SentenceRef, as_refs
from nodes.prism.evidence import Chosen, choose_sentences, evidence_step, in_words
from nodes.prism.state import PrismState

__all__ = ["guess", "selector"]

FALLBACK_PASSAGES = 5


def selector(prompt: str, prune: str | None = None, *, name: str = "selector") -> Node:
    """A node that selects from all candidates the first time, and prunes the evidence after that.

    Pruning removes and never adds: a sentence that was not chosen before is ignored. Output that can't be used leaves
    the evidence as it is; in the first selection the best passages are taken whole. The step says so.

    Args:
        prompt: Name of the prompt that selects.
        prune: Name of the prompt that prunes; without it the node only selects.
        name: The node's name.
    """

    async def selector(state: PrismState, runtime: Runtime[Any]) -> dict[str, Any]:
        current = as_refs(state.get("selected", []))
        begins_round = prune is None or not runtime.context.adder_first
        iteration = state.get("iteration", 0) + begins_round
        pruning = prune is not None and (iteration > 1 or not begins_round)
        step_id = f"root/{name}/{iteration}"
        fallback = ""
        if pruning and not current:
            chosen, now = Chosen([], [], "no evidence to prune", [], 0), []
        else:
            asked = prune if pruning and prune else prompt
            chosen = await choose_sentences(
                state, runtime, node=name, step=step_id, prompt=asked, whole_pool=not pruning
            )
            if chosen.refs is None:
                now = current if pruning else _best_passages(chosen)
                fallback = (
                    "nothing was pruned" if pruning else f"the best {FALLBACK_PASSAGES} passages were taken whole"
                )
            else:
                named = set(chosen.refs)
                now = [ref for ref in current if ref in named] if pruning else chosen.refs
        return {
            "iteration": iteration,
            "selected": now,
            "selected_text": in_words(now, chosen.pool),
            "added": [],
            **({"before": current} if begins_round else {}),
            "trajectory": [evidence_step(step_id, name, state, chosen, now, fallback)],
            "ledger": chosen.calls,
        }

    return selector


def guess(prompt: str) -> Node:
    """A node that guesses evidence before the first round, where the paper's example starts (App. A.3)."""

    async def guess(state: PrismState, runtime: Runtime[Any]) -> dict[str, Any]:
        chosen = await choose_sentences(state, runtime, node="guess", step="root/guess", prompt=prompt)
        now = chosen.refs or []
        fallback = "no evidence was guessed" if chosen.refs is None else ""
        row = evidence_step("root/guess", "guess", state, chosen, now, fallback)
        words = in_words(now, chosen.pool)
        return {"selected": now, "selected_text": words, "trajectory": [row], "ledger": chosen.calls}

    return guess


def _best_passages(chosen: Chosen) -> list[SentenceRef]:
    best = chosen.pool[:FALLBACK_PASSAGES]
    return [(passage.id, index) for passage in best for index in range(len(passage.sentences))]
