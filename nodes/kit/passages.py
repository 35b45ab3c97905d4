"""Passages in nodes: ids in the state, text from the store on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from inference.errors import InputError, StoreError
from nodes.kit.rendering import counted, plain
from nodes.kit.state import IndexRef, PassageRef
from stores.given import PREFIX, get_given
from stores.passages import Passage

if TYPE_CHECKING:
    from stores.index import Index

PREVIEW = 120
NAMED = "named in "
"""How the reason of a passage begins that was found by a link: see `stores.index.reasons`."""


def reference(passage: Passage, score: float, found_by: str) -> PassageRef:
    """A passage for the state."""
    title, preview = plain(passage.title), shortened(passage.text)
    ref = PassageRef(id=passage.id, title=title, preview=preview, score=round(score, 4), found_by=found_by)
    if passage.page:
        ref["page"] = plain(passage.page)
    return ref


def shortened(text: str) -> str:
    """The beginning of a text, for display."""
    text = plain(text)
    return text if len(text) <= PREVIEW else text[: PREVIEW - 1] + "…"


def found_summary(hits: Sequence[PassageRef]) -> str:
    """How many passages a search found, and which of them only because another one names them."""
    named = [f"{rank} {ref['found_by']}" for rank, ref in enumerate(hits, start=1) if ref["found_by"].startswith(NAMED)]
    return counted(len(hits), "passage") + "".join(f"; passage {reason}" for reason in named)


def interleave(rankings: Iterable[Sequence[PassageRef]]) -> list[PassageRef]:
    """Several rankings interleaved: all first items, then all second items, and so on.

    A passage in several of them keeps its best place and its best score.
    """
    best: dict[str, PassageRef] = {}
    for ref in (ref for rank in zip_longest(*rankings) for ref in rank if ref is not None):
        if ref["id"] not in best or ref["score"] > best[ref["id"]]["score"]:
            best[ref["id"]] = ref  # a dict key keeps its position
    return list(best.values())


def index_ref(name: str | None) -> IndexRef:
    """Open the index `name` and return its name and hash.

    Raises:
        InputError: No index is named.
        StoreError: There is none of that name, or it can't be used.
    """
    from stores.index import list_indexes, open_index
    from stores.manifest import index_command

    if not name:
        known = list_indexes()
        there = (
            f"indexes: {', '.join(known)}" if known else f"no index exists yet; make one, such as `{index_command()}`"
        )
        raise InputError("index is missing", hint=f"pass --index NAME (Python: context={{'index': NAME}}); {there}")

    return IndexRef(name=name, hash=open_index(name).hash)


def open_run_index(state: Any) -> Index:
    """The index the run started on.

    Args:
        state: Of a graph or of a task; it has `index`.

    Raises:
        StoreError: It is gone, or has changed since the run started.
    """
    from stores.index import open_index

    started: IndexRef | None = state["index"]
    if started is None:
        raise StoreError("this run has no index")
    index = open_index(started["name"])
    if index.hash != started["hash"]:
        raise StoreError(
            f"index {started['name']} has changed since this run started (it was {started['hash'][:12]}, "
            f"it is {index.hash[:12]}): resuming would mix evidence of two indexes",
            hint="ask the question again, or restore the index",
        )
    return index


def run_language(state: Any) -> str:
    """The language of the run's index; English without one."""
    return open_run_index(state).manifest.language if state["index"] else "en"


async def fetch(state: Any, ids: Iterable[str]) -> list[Passage]:
    """Passages by id, in order: those given with the question, and those of the run's index."""

    def get() -> list[Passage]:
        wanted = list(dict.fromkeys(ids))
        given = [key for key in wanted if key.startswith(PREFIX)]
        indexed = [key for key in wanted if not key.startswith(PREFIX)]
        found = {passage.id: passage for passage in (get_given(given) if given else [])}
        if indexed:
            found |= {passage.id: passage for passage in open_run_index(state).get(indexed)}
        return [found[key] for key in wanted]

    return await asyncio.to_thread(get)


def sentence_starts(index: str, ids: Iterable[str]) -> dict[str, int]:
    """Number of each passage's first sentence in its article; see `Index.starts`."""
    from stores.index import open_index

    try:
        return open_index(index).starts([key for key in dict.fromkeys(ids) if not key.startswith(PREFIX)])
    except StoreError:
        return {}


def find(index: str | None, ids: Iterable[str]) -> dict[str, Passage]:
    """Passages by id, for display; those no longer available are left out."""
    from stores.index import open_index

    wanted = set(ids)
    given = [key for key in wanted if key.startswith(PREFIX)]
    indexed = [key for key in wanted if not key.startswith(PREFIX)]
    found: list[Passage] = []
    with suppress(StoreError):
        found += get_given(given) if given else []
    with suppress(StoreError):
        opened = open_index(index) if index and indexed else None
        found += opened.get([key for key in indexed if key in opened]) if opened else []
    return {passage.id: passage for passage in found}
