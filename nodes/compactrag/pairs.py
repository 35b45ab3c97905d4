"""Question-answer pairs in nodes: ids in the state, text from the knowledge base on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from inference.errors import StoreError
from nodes.compactrag.state import CompactState, PairRef
from nodes.kit.passages import open_run_index, shortened
from stores.knowledge_base import open_pairs
from stores.readings import Pair

if TYPE_CHECKING:
    from stores.pairs import Pairs


def open_run_pairs(state: CompactState) -> Pairs:
    """The knowledge base that the run started on; it may have grown since.

    Raises:
        StoreError: It is gone, was rebuilt, or belongs to another state of the index.
    """
    base = open_pairs(open_run_index(state))
    if base.id != state["knowledge"]["id"]:
        raise StoreError(
            "the knowledge base was rebuilt since this run started: resuming would mix pairs of two bases",
            hint="ask the question again",
        )
    return base


def pair_reference(pair: Pair, score: float) -> PairRef:
    """A pair for the state."""
    preview = shortened(f"{pair.question} {pair.answer}")
    return PairRef(id=pair.id, passage=pair.passage, preview=preview, score=round(score, 4))


async def fetch_pairs(state: CompactState, ids: Iterable[str]) -> dict[str, Pair]:
    """Pairs of the run's knowledge base, by id."""
    wanted = list(dict.fromkeys(ids))

    def get() -> dict[str, Pair]:
        return {pair.id: pair for pair in open_run_pairs(state).get(wanted)} if wanted else {}

    return await asyncio.to_thread(get)
