"""Pair retriever: the nearest pairs of each sub-question (CompactRAG, Secs. 3.1 and 3.3)."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from langgraph.runtime import Runtime

from nodes.compactrag.context import CompactContext
from nodes.compactrag.dag import in_wave
from nodes.compactrag.pairs import open_run_pairs, pair_reference
from nodes.compactrag.state import CompactState
from nodes.kit.deadlines import within_deadlines
from nodes.kit.events import AskedEvent, FoundEvent, tell
from nodes.kit.passages import open_run_index
from nodes.kit.place import node_name
from nodes.kit.search import in_search_thread, search_call
from nodes.kit.steps import step
from nodes.kit.tracers import traced_searches
from stores.readings import Pair


async def pair_retriever(state: CompactState, runtime: Runtime[CompactContext]) -> dict[str, Any]:
    """Search the knowledge base for all sub-questions of the current wave concurrently.

    With passages given in the input, only pairs that were read from those are searched; with `where`, from those that
    meet the filter.
    """
    context, node = runtime.context, node_name()
    wave = in_wave(state["plan"], state["wave"])
    started, clock = time.time(), time.perf_counter()
    queries = {f"root/{item['number']}/pairs": item["rewritten"] for item in wave}
    async with (
        within_deadlines(runtime),
        traced_searches(state, queries, node=node, retriever="pairs", top_k=context.top_k) as reported,
    ):
        hits = await in_search_thread(partial(_search, state, list(queries.values()), context))
        seconds = time.perf_counter() - clock
        found = {
            item["number"]: [pair_reference(pair, score) for pair, score in row]
            for item, row in zip(wave, hits, strict=True)
        }
        reported.extend(found.values())
    steps = []
    for item in wave:
        at, refs = f"root/{item['number']}/pairs", found[item["number"]]
        row = step(
            at,
            "retrieve",
            parent=f"root/{item['number']}",
            question=item["rewritten"],
            answer="\n".join(ref["preview"] for ref in refs),
            evidence=list(dict.fromkeys(ref["passage"] for ref in refs)),
            searches=1,
        )
        steps.append(row)
        tell(runtime, AskedEvent(type="asked", step=at, node=node, question=item["rewritten"]))
        tell(runtime, FoundEvent(type="found", step=at, node=node, question=item["rewritten"], passages=refs))
    return {
        "plan": [{**item, "pairs": found.get(item["number"], item["pairs"])} for item in state["plan"]],
        "trajectory": steps,
        "ledger": [search_call(row["id"], context.method, node, started, seconds, row["evidence"]) for row in steps],
    }


def _search(state: CompactState, queries: list[str], context: CompactContext) -> list[list[tuple[Pair, float]]]:
    within = set(state["given"]) or None
    if within is None and context.where:
        within = open_run_index(state).meeting(context.where)
    return open_run_pairs(state).search_many(queries, context.top_k, within)
