"""Intake of a reader: the passage to read."""

from __future__ import annotations

import asyncio
from typing import Any

from langgraph.runtime import Runtime

from inference.errors import InputError
from nodes.compactrag.context import ReaderContext
from nodes.intake import check_passage, context_of, fresh, require_ids, store_given
from nodes.kit.passages import fetch, index_ref, reference
from nodes.kit.state import IndexRef
from prompts.loader import load_prompt


async def passage_intake(state: Any, runtime: Runtime[ReaderContext]) -> dict[str, Any]:
    """Check the passage, the index and the prompts, and reset results of an earlier run of the thread.

    Raises:
        InputError: The passage is missing or malformed, or a prompt is malformed.
        StoreError: The index is missing or does not have the passage.
    """
    context, passage = context_of(runtime), state.get("passage")
    if not passage:
        raise InputError("passage: none is given", hint="an id of the index, or an object with `title` and `text`")
    check_passage(passage, "passage")

    def check() -> tuple[IndexRef | None, list[str]]:
        for name, text in context.prompt_overrides().items():
            load_prompt(name, text)
        index = index_ref(context.index) if isinstance(passage, str) else None
        if index is not None:
            require_ids(index, [passage], "passage")
        return index, store_given([passage])

    index, ids = await asyncio.to_thread(check)
    source = (await fetch({"index": index}, ids))[0]
    return {
        **fresh(source.title, context, ids if index is None else [], index),
        "source": reference(source, 0.0, "given"),
        "entities": [],
        "facts": [],
        "drafts": [],
        "pairs": [],
        "dropped": [],
        "uncovered": [],
        "repaired": False,
    }
