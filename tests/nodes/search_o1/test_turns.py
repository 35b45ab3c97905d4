"""Search-o1's turns: what is shown of the reasoning, what counts as a search, and where a turn leads."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from graphs.search_o1 import after_reasoner
from nodes.kit.rendering import query_key
from nodes.search_o1.reason_in_documents import _before
from nodes.search_o1.reasoner import NOTHING, _read, all_passages, chain, searches
from nodes.search_o1.state import turn_id
from stores.passages import Passage


def turn(query="Who?", information="Ann.", reasoning="Hm.", passages=""):
    refs = [{"id": key} for key in passages]
    return {"reasoning": reasoning, "query": query, "passages": refs, "information": information}


@pytest.mark.parametrize(("length", "shown"), [(4000, 2), (4001, 1)])
def test_4000_characters_of_earlier_reasoning_are_shown(length, shown):
    first, second = turn(), turn(query="When?", reasoning="")
    missing = length - sum(map(len, chain([first, second]).blocks))
    lines = "\n".join(_before([first, {**second, "reasoning": "x" * missing}]))
    assert ("Search: Who?" in lines, "Search: When?" in lines) == (True, shown == 2)


def test_a_first_turn_that_is_too_long_leaves_nothing_to_show():
    assert _before([turn(reasoning="x" * 4000), turn()]) == []
    assert _before([]) == []


def test_the_first_turn_and_the_latest_are_the_last_to_be_left_out():
    items = chain([turn(f"{number}?") for number in range(1, 5)])
    assert [block.splitlines()[1] for block in items.blocks] == ["Search: 1?", "Search: 4?", "Search: 3?", "Search: 2?"]
    assert items.places == [0, 3, 2, 1]
    assert [line for line in items.shown(3)["reasoning"].splitlines() if "Search" in line] == [
        "Search: 1?", "Search: 3?", "Search: 4?",
    ]  # fmt: skip


def test_a_turn_is_written_with_its_number_query_and_information():
    assert chain([turn(), turn(information="")]).blocks == [
        "1. Hm.\nSearch: Who?\nInformation: Ann.",
        f"2. Hm.\nSearch: Who?\nInformation: {NOTHING}",
    ]


def test_passages_are_inserted_once_by_number_and_the_oldest_search_s_go_first():
    passages = {key: Passage(key, key.upper(), f"Text {key}.") for key in "abc"}
    items = chain([turn("1?", passages="ab"), turn("2?", passages="bc"), turn("3?")], passages)
    told = [block.splitlines()[-1] for block in items.blocks if "Search" in block]
    assert told == ["Found: passages 1, 2", "Information: Ann.", "Found: passages 2, 3"]
    assert [block.splitlines()[0] for block in items.blocks[3:]] == [
        '<passage number="2" title="B">', '<passage number="3" title="C">', '<passage number="1" title="A">',
    ]  # fmt: skip
    assert items.places == [0, 5, 3, 2, 4, 1]


def test_a_query_is_counted_once_whatever_its_case():
    assert query_key(" Who\n WAS it? ") == "who was it?"
    assert searches([turn("Who?"), turn("who?"), turn("When?"), turn("")]) == 2
    assert [ref["id"] for ref in all_passages([turn(passages="ba"), turn(passages="ac")])] == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("action", "text", "read"),
    [
        ("search", " Who\n?", ("Hm.", "search", "Who ?", "")),
        ("search", " ", ("Hm.", "search", "", "the query has no text")),
        ("answer", "", ("Hm.", "answer", "", "")),
    ],
)
def test_only_a_search_needs_a_text(action, text, read):
    assert _read(SimpleNamespace(reasoning="Hm.", action=action, text=text), "") == read


def test_a_reply_that_can_not_be_read_answers_nothing():
    assert _read(None, "no JSON") == ("", "answer", "", "no JSON")


@pytest.mark.parametrize(
    ("last", "way"),
    [(turn("", ""), "answer"), (turn("Who?", ""), "search"), (turn("Who?", "searched before"), "repeated query")],
)
def test_the_latest_turn_says_what_comes_next(last, way):
    assert after_reasoner({"turns": [turn("", "x"), last]}) == way


def test_a_turn_s_id_counts_from_1():
    assert turn_id({"turns": [turn(), turn()]}) == "root/2"
