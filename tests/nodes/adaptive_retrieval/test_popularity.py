"""How popular an entity is: counts over an index are kept, the latest ones."""

from __future__ import annotations

from types import SimpleNamespace

from nodes.adaptive_retrieval import popularity
from stores.passages import Passage


def test_the_latest_counts_are_kept_as_many_as_there_is_room_for(monkeypatch):
    reads = []

    def passages():
        reads.append(1)
        return iter([[Passage("p", "Ann Lee", "Ann Lee lived in Paris.")]])

    index = SimpleNamespace(hash="x", passages=passages)
    monkeypatch.setattr(popularity, "open_run_index", lambda state: index)
    monkeypatch.setattr(popularity, "_KEPT", 2)
    monkeypatch.setattr(popularity, "_counts", type(popularity._counts)())
    for name in ("Ann Lee", "Paris", "Oslo"):
        popularity._in_index({}, [name])
    assert popularity._in_index({}, ["Paris", "Oslo"]) == {"Paris": 1, "Oslo": 0}
    assert len(reads) == 3
    assert popularity._in_index({}, ["Ann Lee"]) == {"Ann Lee": 1}
    assert len(reads) == 4
