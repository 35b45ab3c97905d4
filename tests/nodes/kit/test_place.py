"""Where in a run a node is, and the ledger's entry that says so."""

from __future__ import annotations

import re

import pytest

from nodes.kit.place import ledger_entry, node_name, place, thread_id


@pytest.mark.parametrize(
    ("thread", "shown"), [(None, "local"), ("", "local"), ("a-1.B_2", "a-1.B_2"), ("x" * 100, "x" * 100)]
)
def test_a_thread_s_id_goes_into_a_header_as_it_is(config, thread, shown):
    config["configurable"] = {"thread_id": thread}
    assert thread_id() == shown


@pytest.mark.parametrize("thread", ["x" * 101, "zwölf", "a b", "a\nb"])
def test_an_id_that_is_long_or_no_ascii_word_goes_as_a_digest(config, thread):
    config["configurable"] = {"thread_id": thread}
    assert re.fullmatch("[0-9a-f]{32}", thread_id())


def test_a_node_of_a_graph_within_a_graph_is_found_in_both(config):
    config["metadata"]["langgraph_checkpoint_ns"] = "outer:1|inner:2|adder:3"
    config["configurable"] = {"checkpoint_map": {"": "first", "outer:1": "second"}}
    assert place() == {
        "superstep": 3, "task": "__pregel_pull/adder", "outer": [("first", "outer:1"), ("second", "inner:2")],
    }  # fmt: skip


def test_what_langgraph_does_not_say_is_empty(config):
    config.clear()
    assert (node_name(), place()) == ("", {"superstep": 0, "task": "", "outer": []})


def test_an_entry_of_the_ledger_has_no_cost_before_there_is_a_reply(config):
    entry = ledger_entry("id", "search", node="adder", step="root/1", started=1.23456, seconds=0.98765, found=("a",))
    assert (entry["started"], entry["seconds"], entry["found"]) == (1.235, 0.988, ["a"])
    costs = [entry[key] for key in ("prompt_tokens", "completion_tokens", "cached_tokens")]
    assert costs == [0, 0, 0]
    assert (entry["cached"], entry["repair"]) == (False, False)
    bare = ledger_entry("id", "model", node="adder", step="root/1")
    assert (bare["started"], bare["seconds"], bare["superstep"]) == (0.0, 0.0, 3)
