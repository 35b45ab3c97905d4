"""How rows of the state are merged."""

from __future__ import annotations

from nodes.kit.state import merge_by_id


def test_the_same_entries_twice_change_nothing():
    first, second = {"id": "a"}, {"id": "b"}
    once = merge_by_id([], [first, second])
    assert merge_by_id(once, [second, first]) == once == [first, second]


def test_a_later_entry_takes_the_place_of_an_earlier_one_and_keeps_its_order():
    merged = merge_by_id([{"id": "a"}, {"id": "b"}], [{"id": "a", "n": 7}, {"id": "c"}])
    assert [entry["id"] for entry in merged] == ["a", "b", "c"]
    assert merged[0]["n"] == 7


def test_merging_leaves_its_arguments_alone():
    old = [{"id": "a"}]
    merge_by_id(old, [{"id": "b"}])
    assert len(old) == 1
