"""Passages in a state: merged rankings, and what is shown of them."""

from __future__ import annotations

import pytest

from inference.errors import InputError, StoreError
from nodes.intake import store_given
from nodes.kit.passages import (
    PREVIEW,
    fetch,
    find,
    found_summary,
    index_ref,
    interleave,
    open_run_index,
    reference,
    sentence_starts,
    shortened,
)
from nodes.kit.person import LONGEST_ANSWER, Decision, _read, shown
from stores.build import build_index
from stores.index import open_index
from stores.passages import Passage


def ref(key, score=1.0, **fields):
    return {"id": key, "title": f"Title {key}", "preview": f"{key}...", "score": score, "found_by": "dense", **fields}


def test_rankings_are_merged_rank_by_rank():
    merged = interleave([[ref("a"), ref("b"), ref("c")], [ref("d"), ref("e")], []])
    assert [row["id"] for row in merged] == ["a", "d", "b", "e", "c"]
    assert interleave([]) == []


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [(0.4, 0.7, "second"), (0.7, 0.4, "first"), (0.4, 0.4, "first")],
)
def test_a_passage_in_two_rankings_keeps_its_best_place_and_its_best_score(first, second, kept):
    rankings = [
        [ref("a"), ref("b", first, found_by="first")],
        [ref("c"), ref("d"), ref("b", second, found_by="second")],
    ]
    merged = interleave(rankings)
    assert [row["id"] for row in merged] == ["a", "c", "b", "d"]
    assert (merged[2]["score"], merged[2]["found_by"]) == (max(first, second), kept)


@pytest.mark.parametrize("length", [1, PREVIEW - 1, PREVIEW, PREVIEW + 1, 500])
def test_a_preview_is_120_characters_at_most(length):
    text = shortened("x" * length)
    assert text == ("x" * length if length <= 120 else "x" * 119 + "…")
    assert len(text) <= 120


def test_a_reference_has_the_score_to_four_places():
    found = reference(Passage("p", "A\nTitle", "Some  text."), 0.123456, "both")
    assert found == {"id": "p", "title": "A Title", "preview": "Some text.", "score": 0.1235, "found_by": "both"}


DECISIONS = {"accept": "the answer counts", "reject": "it does not"}


@pytest.mark.parametrize(
    ("said", "own", "found"),
    [
        ("accept", True, Decision("accept", "")),
        (" 'Reject' ", False, Decision("reject", "")),
        ({"decision": "accept", "answer": "Ann\nLee"}, True, Decision("accept", "Ann Lee")),
        ({"decision": "accept", "answer": "x" * LONGEST_ANSWER}, True, Decision("accept", "x" * 2000)),
        ({"decision": "accept", "answer": ""}, False, Decision("accept", "")),
        ({"decision": "accept", "answer": "x" * 2001}, True, "answer: has 2,001 characters, at most 2,000 are allowed"),
        ({"decision": "accept", "answer": "x"}, False, "answer: there is none to give here"),
        ({"decision": "accept", "answer": 1}, True, "answer: must be text, not int"),
        ({"answer": "x"}, True, "decision: must be one of accept, reject"),
        ({"decision": "accept", "z" * 70: 1}, True, f"{'z' * 60}: unknown field; fields: decision, answer"),
    ],
)
def test_a_decision_is_read_or_what_is_wrong_with_it_is_said(said, own, found):
    assert _read(said, DECISIONS, own) == found


def test_five_passages_are_shown_and_only_those_asked_for():
    passages = [ref(key) for key in "abcdefg"]
    assert shown(passages) == [f"Title {key}: {key}..." for key in "abcde"]
    assert shown(passages, ["g", "a"]) == ["Title a: a...", "Title g: g..."]
    assert shown(passages, []) == []


def test_passages_that_only_a_link_found_are_named_with_their_rank():
    hits = [ref("a"), ref("b", found_by="named in passage 1"), ref("c")]
    assert found_summary(hits) == "3 passages; passage 2 named in passage 1"
    assert found_summary(hits[:1]) == "1 passage"


@pytest.fixture
def index(home):
    build_index("small", [Passage("film", "Tide", "Tide is a film."), Passage("lee", "Ann Lee", "She was born.")])
    return open_index("small")


def test_the_run_s_index_has_to_be_the_one_that_it_started_on(index):
    assert index_ref("small") == {"name": "small", "hash": index.hash}
    assert open_run_index({"index": index_ref("small")}).hash == index.hash
    with pytest.raises(StoreError, match="this run has no index"):
        open_run_index({"index": None})
    with pytest.raises(StoreError) as refused:
        open_run_index({"index": {"name": "small", "hash": "0123456789abcdef"}})
    assert f"(it was 0123456789ab, it is {index.hash[:12]}):" in refused.value.message


def test_a_missing_index_is_said_with_those_that_there_are(home):
    with pytest.raises(InputError) as refused:
        index_ref(None)
    assert "no index exists yet" in refused.value.hint
    build_index("small", [Passage("film", "Tide", "Tide is a film.")])
    with pytest.raises(InputError) as refused:
        index_ref("")
    assert "indexes: small" in refused.value.hint


async def test_passages_are_fetched_in_order_from_the_index_and_from_those_given(index):
    [given] = store_given([{"text": "Given."}])
    state = {"index": index_ref("small")}
    found = await fetch(state, ["lee", given, "film", "lee"])
    assert [passage.id for passage in found] == ["lee", given, "film"]
    assert [passage.text for passage in await fetch({"index": None}, [given])] == ["Given."]
    assert set(find("small", ["lee", given, "gone"])) == {"lee", given}
    assert set(find(None, ["lee", given])) == {given}
    assert set(find("gone", ["lee", given])) == {given}
    assert find("small", ["given-0"]) == {}


def test_only_passages_of_an_index_have_a_place_in_an_article(index):
    [given] = store_given([{"text": "Given."}])
    assert sentence_starts("small", ["film", given]) == index.starts(["film"])
    assert sentence_starts("gone", ["film"]) == {}
