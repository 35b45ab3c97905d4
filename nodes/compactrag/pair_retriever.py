"""Pair retriever: the nearest pairs of each sub-question (CompactRAG, Secs. 3.1 and 3.3)."""

from __future__ import annotations

import time
from typing import Any

from langgraph.runtime import Runtime

from nodes.compactrag.context import CompactContext
from nodes.compactrag.dag import in_wave
from nodes.compactrag.pairs import open_run_pairs, pair_reference
from nodes.compactrag.state import CompactState
from nodes.kit.deadlines import within_deadlines
from nodes.kit.events import AskedEvent, FoundEvent, tell
from nodes.kit.search import in_search_thread, search_call
from nodes.kit.state import Node
from nodes.kit.steps import step
from nodes.kit.tracers import traced_searches

__all__ = ["pair_retriever"]


def pair_retriever() -> Node:
    """A node that searches the knowledge base for all sub-questions of the current wave at once.

    With passages given in the input, only pairs that were read from those are searched.
    """

    async def pair_retriever(state: CompactState, runtime: Runtime[Any]) -> dict[str, Any]:
        context: CompactContext = runtime.context
        wave = in_wave(state["plan"], state["wave"])
        within = set(state["given"]) or None
        started, clock = time.time(), time.perf_counter()
        queries = {f"root/{item['number']}/pairs": item["rewritten"] for item in wave}
        async with (
            within_deadlines(runtime),
            traced_searches(state, queries, node="retriever", retriever="pairs", top_k=context.top_k) as reported,
        ):
            hits = await in_search_thread(
                lambda: open_run_pairs(state).search_many(list(queries.values()), context.top_k, within)
            )
            seconds = time.perf_counter() - clock
            found = {
                item["number"]: [pair_reference(pair, score) for pair, score in row]
                for item, row in zip(wave, hits, strict=True)
            }
            reported.extend(found.values())
        steps = [
            step(
                f"root/{item['number']}/pairs",
                "retrieve",
                parent=f"root/{item['number']}",
                question=item["rewritten"],
                answer="\n".join(ref["preview"] for ref in found[item["number"]]),
                evidence=list(dict.fromkeys(ref["passage"] for ref in found[item["number"]])),
                searches=1,
            )
            for item in wave
        ]
        for item in wave:
            at, refs = f"root/{item['number']}/pairs", found[item["number"]]
            tell(runtime, AskedEvent(type="asked", step=at, node="retriever", question=item["rewritten"]))
            event = FoundEvent(type="found", step=at, node="retriever", question=item["rewritten"], passages=refs)
            tell(runtime, event)
        return {
            "plan": [{**item, "pairs": found.get(item["number"], item["pairs"])} for item in state["plan"]],
            "trajectory": steps,
            "ledger": [
                search_call(row["id"], context.method, "retriever", started, seconds, row["evidence"]) for row in steps
            ],
        }

    return pair_retriever
