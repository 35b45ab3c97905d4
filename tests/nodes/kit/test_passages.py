"""Passages in a state: merged rankings, and what is shown of them."""

from __future__ import annotations

import pytest

from nodes.kit.passages import PREVIEW, interleave, reference, shortened
from nodes.kit.person import LONGEST_ANSWER, Decision, _read, shown
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
