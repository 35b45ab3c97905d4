"""Metadata of passages, from the file to the filtered search."""

from __future__ import annotations

import json
import sqlite3
from datetime import date

import numpy as np
import pytest

from inference.errors import InputError, StoreError
from stores.build import add_to_index, build_index, remove_from_index
from stores.cutting import LONG_PASSAGE
from stores.documents import load_documents
from stores.index import MODES, open_index
from stores.metadata import Column, as_metadata
from stores.passages import Passage, as_passage
from stores.retriever import HopgraphRetriever

WORDS = ["river", "castle", "harbour", "island"]


def passages(count=120):
    return [
        Passage(
            f"p{n}",
            f"{WORDS[n % 4]} {n}",
            f"The {WORDS[n % 4]} {n} lies beside {WORDS[(n + 1) % 4]} {(n * 7) % count}.",
            metadata={"year": 2000 + n % 25, "author": "Lee" if n % 3 else "Ray", **({"rated": True} if n % 2 else {})},
        )
        for n in range(count)
    ]


@pytest.fixture(params=[1, 3])
def index(encoder, request):
    build_index("x", passages(), shards=request.param)
    return open_index("x")


FILTERS = {
    'year >= 2020 and author = "Lee"': lambda row: row["year"] >= 2020 and row["author"] == "Lee",
    "rated is missing": lambda row: "rated" not in row,
    "year = 2007": lambda row: row["year"] == 2007,
    'not (author in ("Lee", "Kim") or year < 2010)': lambda row: row["author"] != "Lee" and row["year"] >= 2010,
}


@pytest.mark.parametrize("mode", ["dense", "sparse"])
@pytest.mark.parametrize("where", FILTERS)
def test_a_filtered_half_is_the_whole_ranking_without_the_others(index, mode, where):
    known = {passage.id: passage.metadata for passage in passages()}
    for query in ("castle 7 beside the harbour", "river", "island 42"):
        whole = index.search(query, len(index), mode)
        expected = [hit for hit in whole if FILTERS[where](known[hit.id])]
        assert expected
        for k in (1, 5, len(index)):
            found = index.search(query, k, mode, where)
            assert [hit.score for hit in found] == scores(expected[:k])
            if mode == "sparse" or k == len(index):  # Chroma cuts through ties as it likes
                assert {hit.id for hit in found} == {hit.id for hit in expected[:k]}


def scores(hits):
    return pytest.approx([hit.score for hit in hits], abs=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_no_hit_breaks_the_filter_and_none_is_missing(index, mode):
    known = {passage.id: passage.metadata for passage in passages()}
    for where, meets in FILTERS.items():
        found = index.search("castle 7 beside the harbour", 8, mode, where)
        meeting = sum(map(meets, known.values()))
        assert all(meets(known[hit.id]) for hit in found)
        assert len(found) == min(8, meeting) or mode == "sparse"
    assert index.search("castle", 5, mode, "year = 1999") == []


def test_ranks_are_those_among_the_passages_that_meet_the_filter(index):
    (first, *_) = index.search("castle 7", 3, "hybrid", "year = 2001")
    assert 1 in (first.dense_rank, first.sparse_rank)


def test_a_long_list_is_filtered_afterwards_with_the_same_result(index):
    known = {passage.id: passage.metadata for passage in passages()}
    for where, meets in FILTERS.items():
        expected = scores(index.search("castle 7", 6, "dense", where))
        for few, widest in ((0, 5_000), (0, 0)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("stores.chroma.FEW", few)
                patch.setattr("stores.chroma.WIDEST", widest)
                found = index.search("castle 7", 6, "dense", where)
            assert [hit.score for hit in found] == expected
            assert all(meets(known[hit.id]) for hit in found)


def test_links_lead_only_to_passages_that_meet_the_filter(encoder):
    rows = [
        Passage("film", "Zorba's Night", "Zorba's Night is a film directed by Ann Lee.", metadata={"year": 2000}),
        Passage("lee", "Ann Lee", "Ann Lee was born in Paris.", metadata={"year": 1990}),
        *(Passage(f"d{n}", f"Film {n}", f"Another film of the night, {n}.", metadata={"year": 2000}) for n in range(9)),
    ]
    build_index("x", rows)
    search = open_index("x").search
    assert "lee" in [hit.id for hit in search("Who directed Zorba's Night?", 4, "bridge")]
    found = search("Who directed Zorba's Night?", 11, "bridge", "year >= 2000")
    assert {hit.id for hit in found} == {row.id for row in rows} - {"lee"}


def test_metadata_is_content(encoder):
    rows = passages(4)
    plain = [Passage(row.id, row.title, row.text) for row in rows]
    bare = build_index("x", plain).manifest.hash
    first = build_index("x", rows).manifest.hash
    assert first != bare
    assert build_index("x", plain).manifest.hash == bare
    build_index("x", rows)
    changed = Passage("p1", rows[1].title, rows[1].text, metadata={"year": 1})
    assert add_to_index("x", [changed]).manifest.hash not in (first, bare)
    assert open_index("x").get(["p1"])[0].metadata == {"year": 1}
    assert open_index("x").fields == ["author", "rated", "year"]
    remove_from_index("x", ["p0", "p2", "p3"])
    assert open_index("x").fields == ["year"]
    assert [hit.id for hit in open_index("x").search("castle", 5, "dense", "year = 1")] == ["p1"]


def test_parts_of_a_long_passage_have_its_metadata(encoder):
    text = "The castle lies beside the river. " * LONG_PASSAGE
    build_index("x", [Passage("a", "A", text, metadata={"year": 5}), Passage("b", "B", text, metadata={"year": 6})])
    found = open_index("x").search("castle", 100, "sparse", "year = 5")
    assert len(found) > 2
    assert all(hit.id.startswith("a#") for hit in found)


def test_fields_of_a_line_keep_their_types():
    row = {"id": 7, "text": "x", "year": 2020, "score": 0.5, "ok": True, "none": None, "tags": ["a", {"b": 1}], "": "e",
           "big": 2**64, "lone": "\ud800"}  # fmt: skip
    assert as_passage(row, "f").metadata == {
        "year": 2020, "score": 0.5, "ok": True, "tags": '["a", {"b": 1}]', "": "e", "big": str(2**64), "lone": "\ufffd",
    }  # fmt: skip
    with pytest.raises(InputError, match=r"^f, line 3: field 'score' is nan, not a number"):
        as_passage({"text": "x", "score": float("nan")}, "f, line 3")


def test_columns_of_a_table_have_types(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(
        "id,text,Year,price,open,zip,mixed,note\na,Castle.,2020,1.5,true,00123,1,\nb,River.,,2,FALSE,4,x,seen\n"
    )
    first, second = load_documents(path)
    assert first.metadata == {"Year": 2020, "price": 1.5, "open": True, "zip": "00123", "mixed": "1"}
    assert second.metadata == {"price": 2.0, "open": False, "zip": "4", "mixed": "x", "note": "seen"}


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1.5", str(2**53 + 1)], [1.5, 2**53 + 1]),
        (["1", str(2**64)], ["1", str(2**64)]),
        (["0.5", str(2**64)], ["0.5", str(2**64)]),
        (["1e300", "-2"], [1e300, -2]),
        (["1e999"], ["1e999"]),
    ],
)
def test_no_digit_of_a_whole_number_is_lost(cells, values):
    column = Column()
    for cell in cells:
        column.see(cell)
    assert [column.value(cell) for cell in cells] == values


def test_objects_with_other_keys_than_texts_are_kept_and_endless_ones_refused():
    assert as_metadata({"changes": [{date(2020, 1, 2): {1: "first"}}]}, "f") == {
        "changes": '[{"2020-01-02": {"1": "first"}}]'
    }
    endless: dict = {}
    endless["a"] = endless
    with pytest.raises(InputError, match=r"^f: field 'x' contains itself"):
        as_metadata({"x": endless}, "f")


def test_a_markdown_header_is_metadata_of_all_passages(tmp_path):
    path = tmp_path / "a.md"
    header = "title: Report\nauthor: Lee\ndate: 2024-05-01\ntags: [a, b]\ndraft: false"
    path.write_text(f"---\n{header}\n---\n# One\n\nCastle.\n\n# Two\n\nRiver.\n")
    found = load_documents(path)
    assert len(found) == 2
    assert [passage.metadata for passage in found] == [
        {"author": "Lee", "date": "2024-05-01", "tags": '["a", "b"]', "draft": False}
    ] * 2


def test_an_unknown_field_is_an_error_with_the_known_ones(index):
    with pytest.raises(InputError, match="has a field 'yaer'") as caught:
        index.search("castle", 5, "hybrid", "yaer = 1")
    assert caught.value.hint == "did you mean 'year'? fields: author, rated, year"


def test_an_index_of_an_earlier_version_is_searched_and_says_that_it_has_no_metadata(encoder):
    built = build_index("x", [Passage(row.id, row.title, row.text) for row in passages(5)])
    (path,) = encoder_home(encoder).glob("indexes/x/versions/*/passages.sqlite")
    with sqlite3.connect(path) as db:
        db.executescript("DROP TABLE metadata; ALTER TABLE passages DROP COLUMN metadata; VACUUM")
    manifest = path.parent / "manifest.json"
    fields = json.loads(manifest.read_text())
    fields["files"]["passages.sqlite"] = path.stat().st_size
    manifest.write_text(json.dumps(fields))
    old = open_index("x")
    assert old.hash == built.manifest.hash
    assert old.search("castle", 2)
    assert old.get(["p1"])[0].metadata == {}
    with pytest.raises(StoreError, match="has no metadata, which `where` filters by"):
        old.search("castle", 2, "hybrid", "year = 1")
    again = add_to_index("x", passages(6)[5:])
    assert open_index("x").fields == ["author", "rated", "year"]
    assert again.manifest.passages == 6


def encoder_home(_):
    from inference.settings import get_settings

    return get_settings().home


def test_the_langchain_retriever_filters(index):
    documents = HopgraphRetriever(index="x", k=3, where="year = 2007").invoke("castle")
    assert [document.metadata["metadata"]["year"] for document in documents] == [2007] * 3
    assert HopgraphRetriever(index="x").invoke("castle", where="year = 1999") == []


def test_rows_that_meet_a_filter_are_found_once(index, monkeypatch):
    first = index.allowed("year = 2007")
    monkeypatch.setattr(index._records, "holding", lambda where: np.zeros(1, bool))
    assert index.allowed("year = 2007") is first
