"""The sparse half and the links are built on disk: the result is that of building them in memory."""

from __future__ import annotations

import re
import tracemalloc

import bm25s
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stores.bm25
import stores.links
import stores.words
from stores.links import MOST
from stores.seen import Seen
from stores.sparse import K1, LONGEST_NAME, TITLE_WEIGHT, B, tokenize
from tests.stores.halves import links_of, sparse_of

WORDS = ["Ann", "Lee", "Oslo", "sea", "red", "red", "city", "the", "東京"]
TITLES = st.one_of(
    st.sampled_from(["", "Ann Lee", "Ann", "Lee (film)", "sea (red) (city)", "Oslo (Ann Lee)", "?"]),
    st.lists(st.sampled_from(WORDS), max_size=LONGEST_NAME + 2).map(" ".join),
)
CORPORA = st.lists(
    st.tuples(TITLES, st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join)), min_size=1, max_size=12
)
property_test = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Several chunks, ranges of words and pieces of mentions also in a small corpus."""
    monkeypatch.setattr(stores.words, "CHUNK", 16)
    monkeypatch.setattr(stores.bm25, "RANGE", 8)
    monkeypatch.setattr(stores.bm25, "PIECE", 3)
    monkeypatch.setattr(stores.links, "_ROWS", 3)


def words_of(title, text):
    return tokenize(title) * TITLE_WEIGHT + tokenize(text)


@property_test
@given(CORPORA)
def test_the_matrix_is_that_of_bm25s_to_the_last_bit(tmp_path_factory, corpus):
    folder = tmp_path_factory.mktemp("bm25")
    built = sparse_of(folder, corpus)._scorer
    vocabulary: dict[str, int] = {}
    rows = [[vocabulary.setdefault(w, len(vocabulary)) for w in words_of(*pair)] for pair in corpus]
    if not vocabulary:
        assert built is None
        return
    expected = bm25s.BM25(k1=K1, b=B, method="lucene")
    expected.index((rows, vocabulary), create_empty_token=False, show_progress=False)
    assert built.vocab_dict == vocabulary
    assert built.scores["num_docs"] == len(corpus)
    for name in ("data", "indices", "indptr"):
        found = built.scores[name]
        assert found.dtype == expected.scores[name].dtype
        assert found.tobytes() == expected.scores[name].tobytes()
    assert not list(folder.glob("words-*"))


def names_of(title):
    names = (tuple(tokenize(title)), tuple(tokenize(re.sub(r"\s*\([^()]*\)\s*\Z", "", title))))
    return {name for name in names if name}


@property_test
@given(CORPORA)
def test_links_are_those_of_looking_up_every_span_of_words(tmp_path_factory, corpus):
    titled: dict[tuple[str, ...], list[int]] = {}
    for row, (title, _) in enumerate(corpus):
        for name in names_of(title):
            titled.setdefault(name, []).append(row)
    mentions = []
    for title, text in corpus:
        words, place, found = tokenize(text), 0, []
        while place < len(words):
            spans = [tuple(words[place : place + length]) for length in range(LONGEST_NAME, 0, -1)]
            name = next((span for span in spans if span in titled), None)
            place += len(name) if name else 1
            if name and name not in names_of(title) and name not in found:
                found.append(name)
        mentions.append(found)
    expected = []
    for found in mentions:
        counts = [(sum(name in other for other in mentions) * len(titled[name]), titled[name]) for name in found]
        expected.append([(links, rows) for links, rows in counts if links <= MOST])
    links = links_of(tmp_path_factory.mktemp("links"), corpus)
    assert [[(m.links, m.rows.tolist()) for m in links.of(row)] for row in range(len(corpus))] == expected


def test_the_memory_of_building_does_not_grow_with_the_texts(tmp_path, monkeypatch):
    monkeypatch.setattr(stores.words, "CHUNK", 1 << 10)
    monkeypatch.setattr(stores.bm25, "RANGE", 1 << 10)
    monkeypatch.setattr(stores.bm25, "PIECE", 1 << 8)
    chooser = np.random.default_rng(0)

    def peak(repeats: int) -> int:
        corpus = (("", " ".join(f"word{n}" for n in chooser.integers(0, 300, 100 * repeats))) for _ in range(300))
        tracemalloc.start()
        try:
            sparse_of(tmp_path / str(repeats), corpus)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1)  # fills the cache of stems
    assert peak(20) < 2 * peak(2)


def test_keys_are_counted_in_memory_and_on_disk(monkeypatch):
    monkeypatch.setattr("stores.seen._IN_MEMORY", 3)
    seen = Seen()
    keys = [b"a", b"b", b"a", b"c", b"d", b"a", b"e", b"d", b"e"]
    assert [seen.add(key) for key in keys] == [1, 1, 2, 1, 1, 3, 1, 2, 2]
