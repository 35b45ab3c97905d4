"""Searches that follow links."""

from __future__ import annotations

import shutil
from dataclasses import asdict

import pytest

from inference.errors import StoreError
from stores.build import build_index, rebuild_index
from stores.index import index_folder, open_index, reasons
from stores.passages import Passage

QUESTION = "When was the director of the film Silent Harbour born?"
FILLERS = [Passage(f"f{i}", f"Filler {i}", f"A film about when number {i} was born in a harbour.") for i in range(30)]
CORPUS = [
    Passage("film", "Silent Harbour", "Silent Harbour is a 1950 film directed by Olga Brandt."),
    Passage("person", "Olga Brandt", "She came from a family of bakers in Riga."),
    *FILLERS,
]


@pytest.fixture
def index(encoder):
    build_index("x", CORPUS)
    return open_index("x")


def test_a_passage_that_the_best_hit_names_is_found_and_says_why(index):
    assert "person" not in [hit.id for hit in index.search(QUESTION, 5, "hybrid")]
    hits = index.search(QUESTION, 5)
    (place,) = [i for i, hit in enumerate(hits) if hit.id == "person"]
    assert (hits[place].found_by, hits[place].named_in) == ("link", "film")
    assert reasons(hits)[place] == "named in passage 1"
    assert len(hits) == 5


def test_a_reason_names_a_passage_by_id_if_it_is_not_among_the_hits(index):
    hits = [hit for hit in index.search(QUESTION, 5, "bridge") if hit.id != "film"]
    assert "named in passage film" in reasons(hits)


def test_scores_fall_and_no_passage_comes_twice(index):
    for k in (1, 5, len(CORPUS), 100):
        hits = index.search(QUESTION, k, "bridge")
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert len({hit.id for hit in hits}) == len(hits) == min(k, len(CORPUS))


def test_without_links_the_hits_are_those_of_hybrid_in_its_order(encoder):
    words = QUESTION.rstrip("?").split()
    build_index("x", [Passage(f"p{i}", "", " ".join([*words[i:], *["bread"] * (i % 4), *words[:2]])) for i in range(9)])
    index = open_index("x")
    found = {mode: [hit.id for hit in index.search(QUESTION, 9, mode)] for mode in ("sparse", "hybrid", "bridge")}
    assert found["sparse"] != found["hybrid"] == found["bridge"]


@pytest.mark.parametrize("query", ["xylophone", "?!", "the of and", "film " * 2_000])
def test_any_query_can_be_searched(index, query):
    assert len(index.search(query, 5, "bridge")) == 5


def test_a_name_that_many_passages_have_brings_none_of_them(encoder):
    namesakes = [Passage(f"n{i}", f"Olga Brandt ({i})", "She came from Riga.") for i in range(1_001)]
    build_index("x", [CORPUS[0], *FILLERS, *namesakes])
    assert all(hit.named_in is None for hit in open_index("x").search(QUESTION, 5, "bridge"))


def test_an_index_of_an_earlier_version_names_the_command_that_adds_links(index):
    version = index._folder
    shutil.rmtree(version / "links")
    manifest = type(index.manifest)(
        **asdict(index.manifest)
        | {"files": {name: size for name, size in index.manifest.files.items() if not name.startswith("links/")}}
    )
    manifest.write(version)
    copy = index_folder("old")
    shutil.copytree(index_folder("x"), copy)
    old = open_index("old")
    assert old.search(QUESTION, 3, "hybrid")
    with pytest.raises(StoreError, match="no links") as error:
        old.search(QUESTION, 3, "bridge")
    assert "hopgraph index --name x --rebuild" in error.value.hint
    before = old.hash
    rebuild_index("old")
    assert open_index("old").search(QUESTION, 3, "bridge")
    assert open_index("old").hash == before
