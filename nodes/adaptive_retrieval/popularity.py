"""Popularity: how many passages name a question's entities (Mallen et al. 2023, Sec. 5; there page views)."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Any

from langgraph.runtime import Runtime

from nodes.adaptive_retrieval.context import AdaptiveRetrievalContext
from nodes.kit.passages import fetch, open_run_index, run_language
from nodes.kit.rendering import counted
from nodes.kit.steps import logged, step
from stores.entities import find_entities
from stores.passages import Passage

_AMOUNTS = frozenset({"DATE", "TIME", "PERCENT", "MONEY", "QUANTITY", "ORDINAL", "CARDINAL"})
"""spaCy's types of entities that nothing is asked about."""
_KEPT = 10_000
_counts: OrderedDict[tuple[str, str], int] = OrderedDict()
"""Index hash and name -> passages that name it; the latest `_KEPT`."""
_lock = Lock()


async def popularity(state: Any, runtime: Runtime[AdaptiveRetrievalContext]) -> dict[str, Any]:
    """Decide whether the question `retrieves`: unless all its entities are popular. Without an entity it does.

    Entities are found in English only: a question of an index in another language always retrieves.

    Raises:
        InputError: spaCy's English model is not installed.
        StoreError: The run's index is gone or has changed.
    """
    english = await asyncio.to_thread(run_language, state) == "en"
    names = await asyncio.to_thread(subjects, state["question"]) if english else []
    if state["given"]:
        passages = await fetch(state, state["given"])
        counts = named_in(passages, names)
    else:
        counts = await asyncio.to_thread(_in_index, state, names)
    rarest = min(counts, key=lambda name: (counts[name], name), default="")
    retrieves = not rarest or counts[rarest] < runtime.context.popular_from
    row = step(
        "root/popularity",
        "route",
        question=state["question"],
        answer="retrieval" if retrieves else "no retrieval",
        verdict=f"the rarest entity, {rarest}, is in {counted(counts[rarest], 'passage')}" if rarest else "no entity",
    )
    return {"retrieves": retrieves, **logged(row)}


def subjects(question: str) -> list[str]:
    """Names in a question that it can be about, in order, as spaCy finds them.

    Raises:
        InputError: spaCy's English model is not installed.
    """
    return [entity.text for entity in find_entities(question) if entity.label not in _AMOUNTS]


def named_in(passages: Iterable[Passage], names: Sequence[str]) -> dict[str, int]:
    """For each name the number of passages that have it in title or text: whole words, without regard to case."""
    patterns = {name: re.compile(rf"(?<!\w){re.escape(name.casefold())}(?!\w)") for name in names}
    counts = dict.fromkeys(names, 0)
    for passage in passages:
        text = f"{passage.title}\n{passage.text}".casefold()
        for name, pattern in patterns.items():
            counts[name] += pattern.search(text) is not None
    return counts


def _in_index(state: Any, names: Sequence[str]) -> dict[str, int]:
    """Counts over the run's index, whose passages are read once for the names that are new."""
    index = open_run_index(state)
    with _lock:
        known = {name: _counts[index.hash, name] for name in names if (index.hash, name) in _counts}
    if missing := [name for name in names if name not in known]:
        known |= named_in((passage for chunk in index.passages() for passage in chunk), missing)
    with _lock:
        _counts.update({(index.hash, name): count for name, count in known.items()})
        while len(_counts) > _KEPT:
            _counts.popitem(last=False)
    return {name: known[name] for name in names}
