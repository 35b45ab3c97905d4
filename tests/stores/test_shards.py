"""An index in several shards finds what one shard finds."""

from __future__ import annotations

import gc
import shutil

import chromadb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stores.index
from inference.errors import EndpointError, InputError, StoreError
from inference.settings import get_settings
from stores.build import add_to_index, build_index, rebuild_index, remove_from_index
from stores.index import MODES, open_index
from stores.manifest import current_version, index_folder
from stores.overview import remove_index
from stores.passages import Passage
from stores.shards import Shards, shard_of
from tests.stores.hashing_encoder import HashingEncoder
from tests.stores.test_build import chroma_server

NAMES = ["Ann Lee", "Oslo", "Sea (film)", "Sea", "Brand", "The", ""]
WORDS = [*["red", "green", "blue", "salt", "city", "river", "born", "in", "of", "the", "directed"], *NAMES[:5], "東京"]
QUERIES = ["Ann Lee directed Sea", "Oslo city red", "salt", "東京 river", "xylophone", "the of"]

titles = st.sampled_from(NAMES)
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)
passages = st.dictionaries(st.integers(0, 40), st.tuples(titles, texts), min_size=1, max_size=16)


def as_passages(rows) -> list[Passage]:
    return [Passage(f"p{n}", title, text, (text,)) for n, (title, text) in rows.items()]


class Exact:
    """Vectors compared with all of them."""

    name = "numpy"

    def __init__(self, file):
        self.file = file

    def build(self, batches):
        self.file.parent.mkdir(exist_ok=True)
        np.save(self.file, np.concatenate([np.empty((0, 32), np.float32), *batches]))

    def open(self):
        return ExactVectors(np.load(self.file))

    def drop(self):
        pass


class ExactVectors:
    def __init__(self, vectors):
        self.vectors = vectors

    def __len__(self):
        return len(self.vectors)

    def search(self, vector, k, allowed=None):
        scores = np.array([row @ vector for row in self.vectors], np.float32)
        if allowed is not None:
            scores[~allowed] = -np.inf
        rows = np.argsort(-scores, kind="stable")[:k]
        return rows, scores[rows]


@pytest.fixture
def exact(encoder, monkeypatch):
    """Exact dense search in the place of Chroma."""
    for module in ("workers", "index", "versions"):
        monkeypatch.setattr(
            f"stores.{module}.vector_stores",
            lambda manifest, version: [Exact(version / "dense" / f"{n}.npy") for n in range(manifest.shards)],
        )


def found(name: str):
    """What every mode finds for every query, with ranks and scores."""
    index = open_index(name)
    return [index.search(query, k, mode) for query in QUERIES for mode in MODES for k in (1, 3, 100)]


def same(one: str, several: str) -> None:
    assert open_index(one).hash == open_index(several).hash
    assert found(one) == found(several)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(2, 5), passages, passages, st.data())
def test_shards_find_exactly_what_one_shard_finds_also_after_changes(exact, count, first, second, data):
    """Also the BM25 scores are equal, to the last bit."""
    stores.index._open.clear()
    build_index("one", as_passages(first), shards=1)
    build_index("several", as_passages(first), shards=count)
    same("one", "several")
    for name in ("one", "several"):
        add_to_index(name, as_passages(second))
    same("one", "several")
    ids = sorted({f"p{n}" for n in (*first, *second)})
    if gone := data.draw(st.sets(st.sampled_from(ids), max_size=len(ids) - 1)):
        for name in ("one", "several"):
            remove_from_index(name, sorted(gone))
        same("one", "several")
    rebuild_index("several", shards=count + 1)
    assert open_index("several").manifest.shards == count + 1
    same("one", "several")


def random_passages(count: int) -> list[Passage]:
    rng = np.random.default_rng(0)
    words = [f"word{n}" for n in range(3_000)]
    return [
        Passage(f"p{n}", words[n], text, (text,))
        for n, text in enumerate(" ".join(rng.choice(words, 20)) for _ in range(count))
    ]


def test_shards_on_chroma_find_what_is_nearest(home, monkeypatch):
    encoder = HashingEncoder("hashing/256", 256)
    for module in ("build", "index"):
        monkeypatch.setattr(f"stores.{module}.get_encoder", lambda: encoder)
    given = random_passages(1_500)
    texts = [f"{p.title}. {p.text}" for p in given]
    vectors = encoder.encode_passages(texts)
    build_index("one", given)
    build_index("several", given, shards=4)
    recall = {"one": [], "several": []}
    for query in [p.text for p in given[:100]]:
        scores = vectors @ encoder.encode_queries([query])[0]
        least = np.sort(scores)[-10] - 1e-6
        for name, values in recall.items():
            hits = open_index(name).search(query, 10, "dense")
            values.append(np.mean([hit.score >= least for hit in hits]))
    assert np.mean(recall["several"]) >= np.mean(recall["one"]) - 0.005
    assert np.mean(recall["several"]) > 0.99


def test_a_passage_stays_in_its_shard_and_shards_may_be_empty(encoder):
    build_index("x", as_passages(dict.fromkeys(range(3), ("", "salt"))), shards=12)
    index = open_index("x")
    assert {hit.id for hit in index.search("salt", 5)} == {"p0", "p1", "p2"}
    before = {n: shard_of(f"p{n}", 12) for n in range(3)}
    for n, shard in before.items():
        assert n in index._shards.rows[shard]
    assert sum(map(len, index._shards.rows)) == 3


def test_one_shard_is_written_as_before(encoder):
    version = build_index("x", as_passages({1: ("Sea", "salt")})).manifest
    folder = current_version(index_folder("x"))
    assert version.shards == 1
    assert '"shards"' not in (folder / "manifest.json").read_text()
    assert not (folder / "shards.npy").exists()
    assert (folder / "sparse" / "params.index.json").exists()
    assert (folder / "dense" / "chroma.sqlite3").exists()


def test_another_number_of_shards_keeps_vectors_and_hash(encoder):
    given = as_passages({n: ("Sea", f"salt {n}") for n in range(30)})
    first = build_index("x", given, shards=3)
    encoder.passages = 0
    again = rebuild_index("x", shards=5)
    assert again.manifest.hash == first.manifest.hash
    assert (again.manifest.shards, again.encoded, encoder.passages) == (5, 0, 0)
    assert build_index("x", given[:20]).manifest.shards == 5
    assert rebuild_index("x", shards=1).manifest.shards == 1
    assert open_index("x").search("salt 3", 1)[0].id == "p3"


@pytest.mark.parametrize("count", [0, 1_025])
def test_a_wrong_number_of_shards_is_refused(encoder, count):
    with pytest.raises(InputError, match="shards: must be 1 to 1,024"):
        build_index("x", as_passages({1: ("", "salt")}), shards=count)


def test_shards_lie_on_several_servers_and_go_when_the_index_goes(encoder, tmp_path, monkeypatch):
    given = random_passages(60)

    def nearest(name):
        return [[hit.id for hit in open_index(name).search(p.text, 3, mode)] for p in given for mode in MODES]

    build_index("one", given)
    expected = nearest("one")
    with chroma_server(tmp_path / "a") as first, chroma_server(tmp_path / "b") as second:
        monkeypatch.setenv("HOPGRAPH_CHROMA_URL", f"{first}, {second}")
        get_settings.cache_clear()
        build_index("several", given, shards=3)
        assert nearest("several") == expected
        assert (collections(first), collections(second)) == (2, 1)
        monkeypatch.delenv("HOPGRAPH_CHROMA_URL")
        get_settings.cache_clear()
        stores.index._open.clear()
        assert nearest("several") == expected
        stores.index._open.clear()
        gc.collect()
        remove_index("several")
        assert (collections(first), collections(second)) == (0, 0)


def collections(url: str) -> int:
    host, port = url.removeprefix("http://").split(":")
    return chromadb.HttpClient(host=host, port=int(port)).count_collections()


def test_a_server_that_is_down_is_named(encoder, tmp_path, monkeypatch):
    with chroma_server(tmp_path / "a") as first:
        monkeypatch.setenv("HOPGRAPH_CHROMA_URL", f"{first},http://127.0.0.1:9")
        get_settings.cache_clear()
        with pytest.raises(EndpointError, match="Chroma server failed on") as failed:
            build_index("x", as_passages({n: ("", f"salt {n}") for n in range(9)}), shards=2)
    assert "HOPGRAPH_CHROMA_URL" in failed.value.hint


def test_more_servers_than_shards_are_refused_before_anything_is_encoded(encoder, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_CHROMA_URL", "http://127.0.0.1:9, http://127.0.0.1:10")
    get_settings.cache_clear()
    with pytest.raises(InputError, match="HOPGRAPH_CHROMA_URL names 2 servers, and the index has 1 shard"):
        build_index("x", as_passages({1: ("", "salt")}))
    assert encoder.passages == 0


def test_a_lost_shard_is_noticed(encoder):
    build_index("x", as_passages({n: ("", f"salt {n}") for n in range(9)}), shards=2)
    stores.index._open.clear()
    shutil.rmtree(current_version(index_folder("x")) / "dense" / "1")
    with pytest.raises(StoreError) as failed:
        open_index("x").search("salt")
    assert "--rebuild" in failed.value.hint


def test_a_sparse_half_in_shards_of_an_earlier_version_is_refused(encoder):
    build_index("x", as_passages({n: ("", f"salt {n}") for n in range(9)}), shards=2)
    stores.index._open.clear()
    (current_version(index_folder("x")) / "sparse" / "frequencies.npy").touch()
    with pytest.raises(StoreError, match="in shards, as an earlier version wrote it") as failed:
        open_index("x").search("salt", mode="sparse")
    assert "hopgraph index --name x --rebuild" in failed.value.hint
    stores.index._open.clear()
    rebuild_index("x")
    assert open_index("x").search("salt 3", 1, "sparse")[0].id == "p3"


def test_places_of_rows_in_a_shard():
    shards = Shards(np.array([0, 1, 0, 0, 1], np.uint16), 3)
    assert [rows.tolist() for rows in shards.rows] == [[0, 2, 3], [1, 4], []]
    assert shards.places(0, np.array([3, 1, 0])).tolist() == [2, -1, 0]
    assert shards.places(2, np.array([3, 1])).tolist() == [-1, -1]
