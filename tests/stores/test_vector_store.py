"""Another vector store in the place of Chroma: all that it needs is what the protocol says."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

import stores.index
from inference.errors import StoreError
from stores.build import add_to_index, build_index
from stores.index import open_index
from stores.overview import remove_index
from stores.passages import Passage
from tests.stores.hashing_encoder import HashingEncoder

PASSAGES = [
    Passage("lee", "Ann Lee", "Ann Lee directed Brand."),
    Passage("oslo", "Oslo", "Oslo is a city in Norway."),
    Passage("sea", "Sea", "The sea is salty."),
]


class Exact:
    """Vectors in a numpy file, compared with all of them."""

    name = "numpy"
    dropped: ClassVar[list[str]] = []

    def __init__(self, version):
        self.version = version
        self.file = version / "dense.npy"

    def build(self, batches):
        np.save(self.file, np.concatenate(list(batches)))

    def open(self):
        return ExactVectors(np.load(self.file))

    def drop(self):
        self.dropped.append(self.version.name)


class ExactVectors:
    def __init__(self, vectors):
        self.vectors = vectors

    def __len__(self):
        return len(self.vectors)

    def search(self, vector, k, allowed=None):
        scores = self.vectors @ vector
        if allowed is not None:
            scores[~allowed] = -np.inf
        rows = np.argsort(-scores, kind="stable")[:k]
        return rows, scores[rows]


@pytest.fixture
def exact(home, monkeypatch):
    encoder = HashingEncoder()
    for module in ("build", "index"):
        monkeypatch.setattr(f"stores.{module}.get_encoder", lambda: encoder)
    for module in ("workers", "index", "versions"):
        monkeypatch.setattr(f"stores.{module}.vector_stores", lambda manifest, version: [Exact(version)])
    monkeypatch.setattr(Exact, "dropped", [])
    return encoder


def test_an_index_is_built_searched_extended_and_removed_with_another_store(exact):
    first = build_index("x", PASSAGES[:2]).manifest.version
    hits = open_index("x").search("Oslo is a city in Norway.", k=1, mode="dense")
    assert [hit.id for hit in hits] == ["oslo"]

    second = add_to_index("x", PASSAGES[2:]).manifest.version
    assert [hit.id for hit in open_index("x").search("The sea is salty.", k=1, mode="dense")] == ["sea"]

    # The open index holds its version: only what nobody searches is dropped.
    assert set(Exact.dropped) <= {first}
    stores.index._open.clear()
    remove_index("x")
    assert second in Exact.dropped


def test_a_store_that_lost_vectors_is_named(exact, monkeypatch):
    build_index("x", PASSAGES)
    monkeypatch.setattr(ExactVectors, "__len__", lambda self: 1)
    with pytest.raises(StoreError, match="numpy has 1 vectors for the 3 passages of index 'x'"):
        open_index("x").search("sea")
