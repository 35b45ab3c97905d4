"""The knowledge base of an index: question-answer pairs that a reader extracted from it."""

from __future__ import annotations

from typing_extensions import TypedDict

from nodes.kit.state import IndexRef
from stores.knowledge_base import open_pairs


class PairsRef(TypedDict):
    """The knowledge base a run started on. Resuming on a rebuilt one is refused."""

    id: str
    read: int
    """Passages of the index that had been read when the run started."""
    passages: int
    """Passages of the index."""
    pairs: int


def pairs_ref(index: IndexRef) -> PairsRef:
    """Open the knowledge base of an index and return its id and size.

    Raises:
        StoreError: There is none, or it belongs to another state of the index.
    """
    from stores.index import open_index

    opened = open_index(index["name"])
    base = open_pairs(opened)
    return PairsRef(id=base.id, read=base.read, passages=len(opened), pairs=len(base))
