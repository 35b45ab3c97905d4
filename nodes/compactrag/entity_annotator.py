"""Entity annotator: named entities of the passage to read (CompactRAG, Sec. 3.1)."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from nodes.compactrag.state import Entity, ReaderState
from nodes.kit.passages import fetch, run_language
from nodes.kit.rendering import plain
from nodes.kit.steps import logged, step
from stores.entities import find_entities

# One, for spaCy takes one text at a time: those that wait for it must not hold threads that others need.
_thread = ThreadPoolExecutor(1, "entities")


async def entity_annotator(state: ReaderState) -> dict[str, Any]:
    """Find the entities that the pairs should mention, with spaCy; none where the index is not in English."""
    passage = (await fetch(state, [state["source"]["id"]]))[0]
    english = await asyncio.to_thread(run_language, state) == "en"
    text = plain(passage.text) if english else ""
    found = await asyncio.get_running_loop().run_in_executor(_thread, find_entities, text)
    entities = [Entity(text=entity.text, label=entity.label) for entity in found]
    row = step(
        "root/entity_annotator",
        "decompose",
        question=state["question"],
        answer=", ".join(entity["text"] for entity in entities),
        evidence=[passage.id],
    )
    return {"entities": entities, **logged(row)}
