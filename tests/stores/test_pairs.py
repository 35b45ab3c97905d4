"""The knowledge base of question-answer pairs: a real SQLite file, real searches, a small encoder."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

from inference.errors import StoreError
from stores.build import add_to_index, build_index, rebuild_index
from stores.index import open_index
from stores.knowledge_base import open_pairs, writing
from stores.manifest import index_folder
from stores.pairs import Pairs
from stores.passages import Passage, content_id
from stores.readings import Pair, Reading, pair_text
from tests.stores.hashing_encoder import HashingEncoder

PASSAGES = [
    Passage(id="lee", title="Ann Lee", text="Ann Lee was born in Paris."),
    Passage(id="film", title="Zorba", text="Zorba is a film directed by Ann Lee."),
    Passage(id="moon", title="Moon", text="The Moon goes round the Earth."),
]
PAIRS = {
    "lee": [("Where was Ann Lee born?", "Paris")],
    "film": [("Who directed Zorba?", "Ann Lee"), ("What is Zorba?", "a film")],
    "moon": [("What does the Moon go round?", "the Earth")],
}


@pytest.fixture
def encoder(encoder, monkeypatch):
    monkeypatch.setattr("stores.pairs.get_encoder", lambda: encoder)
    return encoder


@pytest.fixture
def index(encoder):
    build_index("x", PASSAGES)
    return open_index("x")


def keep(base: Pairs, index, encoder, *keys: str, pairs=PAIRS):
    for passage in index.get(keys):
        rows = [Pair(passage.id, n, q, a) for n, (q, a) in enumerate(pairs[passage.id], start=1)]
        vectors = encoder.encode_passages([pair_text(row) for row in rows])
        base.add(Reading(passage.id, content_id(passage.title, passage.text), calls=1), rows, vectors)


@pytest.fixture
def base(index, encoder):
    with writing(index) as base:
        base.rebase(index, encoder)
        keep(base, index, encoder, "lee", "film", "moon")
    return open_pairs(index)


def test_the_nearest_pairs_come_first_and_name_their_passages(base):
    (found,) = base.search_many(["Who directed Zorba?"], 2)
    assert found[0][0].id == "film#1"
    assert found[0][0].passage == "film"
    assert found[0][1] >= found[1][1]
    assert len(found) == 2


def test_question_and_answer_are_searched_as_one_text(base):
    assert base.search_many(["Paris"], 1)[0][0][0].id == "lee#1"


def test_of_pairs_that_are_equally_near_the_first_ones_are_found_in_their_order(base, index, encoder):
    same = {"moon": [("What is round?", "the Moon")] * 30}
    keep(base, index, encoder, "moon", pairs=same)
    (found,) = base.search_many(["What is round?"], 7)
    assert [pair.id for pair, _ in found] == [f"moon#{number}" for number in range(1, 8)]


def test_blank_queries_find_nothing_and_k_may_exceed_the_base(base):
    found = base.search_many([" ", "Zorba"], 50)
    assert found[0] == []
    assert len(found[1]) == 4


def test_a_search_can_be_kept_within_passages(base):
    (found,) = base.search_many(["Who directed Zorba?"], 5, within={"moon", "lee"})
    assert {pair.passage for pair, _ in found} == {"moon", "lee"}
    assert base.search_many(["Zorba"], 5, within=set()) == [[]]


def test_pairs_are_had_by_id_in_the_order_asked_for(base):
    assert [pair.answer for pair in base.get(["film#2", "lee#1"])] == ["a film", "Paris"]
    with pytest.raises(StoreError, match="no pair 'film#9'"):
        base.get(["film#9"])
    with pytest.raises(StoreError, match="no pair 'film#x'"):
        base.get(["film#x"])


def test_an_id_with_a_hash_sign_is_no_trouble(encoder):
    build_index("x", [Passage(id="a#1", title="A", text="About A.")])
    index = open_index("x")
    with writing(index) as base:
        base.rebase(index, encoder)
        keep(base, index, encoder, "a#1", pairs={"a#1": [("What?", "A")]})
    assert open_pairs(index).get(["a#1#1"])[0].passage == "a#1"


def test_an_unfinished_base_can_be_searched_and_sees_what_is_added_while_it_is_open(index, encoder):
    with writing(index) as base:
        base.rebase(index, encoder)
        keep(base, index, encoder, "lee")
        other = open_pairs(index)
        assert (other.read, len(other)) == (1, 1)
        assert other.search_many(["Zorba"], 1)[0][0][0].passage == "lee"
        keep(base, index, encoder, "film")
        assert (other.read, len(other)) == (2, 3)
        assert other.search_many(["Zorba"], 1)[0][0][0].passage == "film"


def test_an_empty_base_finds_nothing(index, encoder):
    with writing(index) as base:
        base.rebase(index, encoder)
    assert open_pairs(index).search_many(["Zorba"], 5) == [[]]


def test_reading_a_passage_again_takes_the_place_of_the_first_time(base, index, encoder):
    before = base.digest()
    with writing(index) as writer:
        keep(writer, index, encoder, "film", pairs={"film": [("Who made Zorba?", "Ann Lee")]})
    assert len(base) == 3
    assert base.digest() != before
    with writing(index) as writer:
        keep(writer, index, encoder, "film")
    assert base.digest() == before


def test_the_digest_does_not_depend_on_the_order_of_reading(base, index, encoder):
    before = base.digest()
    with writing(index) as writer:
        writer.clear()
        writer.rebase(index, encoder)
        keep(writer, index, encoder, "moon", "film", "lee")
    assert base.digest() == before


def test_no_base_says_how_to_make_one(index):
    with pytest.raises(StoreError, match="no knowledge base") as caught:
        open_pairs(index)
    assert "hopgraph read --index x" in caught.value.hint
    assert not (index_folder("x") / "pairs.sqlite").exists()


def test_a_changed_index_is_refused_until_it_is_read_again(base, encoder):
    add_to_index(
        "x", [Passage(id="moon", title="Moon", text="The Moon is round."), Passage(id="new", title="", text="N")]
    )
    index = open_index("x")
    with pytest.raises(StoreError, match="another state of it") as caught:
        open_pairs(index)
    assert "not read again" in caught.value.hint
    with writing(index) as writer:
        writer.rebase(index, encoder)
    assert open_pairs(index).done() == {"lee", "film"}
    assert {pair.passage for pair in open_pairs(index).all_pairs()} == {"lee", "film"}


def test_another_encoder_means_new_vectors_and_no_new_reading(base, monkeypatch):
    other = HashingEncoder("hashing/48", dimension=48)
    for module in ("build", "index", "pairs"):
        monkeypatch.setattr(f"stores.{module}.get_encoder", lambda: other)
    rebuild_index("x")
    index = open_index("x")
    digest = base.digest()
    with pytest.raises(StoreError, match="another state"):
        open_pairs(index)
    with writing(index) as writer:
        writer.rebase(index, other)
        assert len(writer.done()) == 3
    assert open_pairs(index).digest() == digest
    assert open_pairs(index).search_many(["Who directed Zorba?"], 1)[0][0][0].id == "film#1"


def test_there_is_one_writer(index):
    with writing(index), pytest.raises(StoreError, match="being read by another process"), writing(index):
        pass


def test_a_failed_reading_is_told_from_a_read_passage(index, encoder):
    with writing(index) as base:
        base.rebase(index, encoder)
        base.add(Reading("lee", "c", cause="model_output"), [], np.zeros((0, 32), np.float32))
        keep(base, index, encoder, "film")
        assert base.failed() == {"lee"}
        assert base.done() == {"lee", "film"}
        assert base.read == 1


def test_a_base_started_anew_is_another_one(base, index, encoder):
    first = base.id
    with writing(index) as writer:
        writer.clear()
        writer.rebase(index, encoder)
    assert base.id not in ("", first)
    assert len(base) == 0


def test_a_file_put_in_the_place_of_an_open_one_is_noticed(base, index):
    path = index_folder("x") / "pairs.sqlite"
    for old in path.parent.glob("pairs.sqlite*"):
        old.unlink()
    with pytest.raises(StoreError, match="no knowledge base"):
        open_pairs(index)


def test_a_damaged_file_is_a_clear_error(base, index):
    path = index_folder("x") / "pairs.sqlite"
    for old in path.parent.glob("pairs.sqlite*"):
        old.unlink()
    path.write_bytes(b"no database at all" * 1000)
    with pytest.raises(StoreError, match=r"pairs\.sqlite"):
        open_pairs(index)


def test_a_file_of_another_format_is_refused(base, index):
    path = index_folder("x") / "pairs.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT OR REPLACE INTO about VALUES ('format', '99')")
    with pytest.raises(StoreError, match="has format 99"):
        Pairs(path)
