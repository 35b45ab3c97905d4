"""PRISM's rounds: whose turn it is, when they end, and what is then the evidence."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from graphs.prism import after_adder, after_selector, enter, fresh, queries, select
from nodes.prism.context import PrismContext
from nodes.prism.evidence import EvidenceLabels, _in_words, evidence_update
from nodes.prism.merger import merger
from nodes.prism.selector import FALLBACK_PASSAGES, _best_passages
from stores.passages import Passage

A, B, C = ("a", 0), ("b", 1), ("c", 0)


def route(of, state, **settings):
    return of.__wrapped__(state, PrismContext(**settings))


@pytest.mark.parametrize(
    ("settings", "first"),
    [
        ({}, "decompose"),
        ({"ablate": ["analyzer"]}, "search"),
        ({"ablate": ["loop"]}, "decompose"),
        ({"condition": "oracle_context"}, "gold"),
        ({"condition": "oner"}, "search"),
        ({"condition": "setwise"}, "search"),
        ({"condition": "full_context"}, "search"),
    ],
)
def test_a_condition_decides_where_a_run_begins(settings, first):
    assert route(enter, {}, **settings) == first


@pytest.mark.parametrize(
    ("pool", "settings", "first"),
    [
        ([1], {}, "select"),
        ([], {}, "take all"),
        ([], {"order": "adder_first"}, "take all"),
        ([1], {"order": "adder_first"}, "guess first"),
        ([1], {"condition": "full_context"}, "take all"),
        ([1], {"condition": "oner"}, "take all"),
        ([1], {"condition": "setwise"}, "pick a set"),
        ([], {"condition": "setwise"}, "take all"),
    ],
)
def test_who_looks_at_the_candidates_first(pool, settings, first):
    assert route(select, {"pool": pool}, **settings) == first


@pytest.mark.parametrize(("condition", "gold"), [("oracle_context", "evidence"), ("prism", ""), ("full_context", "")])
def test_only_the_oracle_condition_is_shown_gold(condition, gold):
    assert PrismContext(condition=condition).oracle == gold


def after(*, changed, iteration, **settings):
    state = {"selected": [A, B] if changed else [B, A], "before": [A] if changed else [A, B], "iteration": iteration}
    return route(after_selector, state, **settings), route(after_adder, state, **settings)


def test_by_default_the_adder_ends_a_round():
    assert after(changed=True, iteration=1) == ("add", "prune")
    assert after(changed=True, iteration=2) == ("add", "prune")
    assert after(changed=True, iteration=3) == ("add", "done"), "there are three rounds at most"
    assert after(changed=False, iteration=1) == ("add", "done"), "the order of sentences is no change"
    assert after(changed=True, iteration=1, max_iterations=1) == ("add", "done")


def test_in_the_order_of_the_paper_s_example_the_selector_does():
    first = {"order": "adder_first"}
    assert after(changed=True, iteration=2, **first) == ("add", "prune")
    assert after(changed=True, iteration=3, **first) == ("done", "prune")
    assert after(changed=False, iteration=1, **first) == ("done", "prune")


def test_without_the_loop_the_first_selection_is_the_last():
    assert after(changed=True, iteration=1, ablate=["loop"])[0] == "done"


def test_a_run_begins_with_nothing_chosen_and_searches_for_question_and_sub_questions():
    state = fresh({"question": "Q", "gold": ["a"]})
    assert (state["iteration"], state["selected"], state["oracle"]) == (0, [], ["a"])
    assert queries({"question": "Q", "subquestions": ["A?", "B?"]}) == ["Q", "A?", "B?"]
    assert queries({"question": "Q"}) == ["Q"]


def ref(key):
    return {"id": key, "title": key, "score": 1.0}


@pytest.fixture(autouse=True)
def _outside_of_a_graph(monkeypatch):
    monkeypatch.setattr("nodes.kit.steps.node_name", lambda: "merger")


async def merged(**settings):
    state = {
        "question": "Q", "pool": [ref("c"), ref("a"), ref("b"), ref("d")], "selected": [B, A, ("b", 0), ("x", 0)],
        "kept": [C, B], "added": [A],
    }  # fmt: skip
    found = await merger(state, SimpleNamespace(context=PrismContext(**settings)))
    return [item["id"] for item in found["evidence"]], found["sentences"], found


async def test_the_union_is_all_that_was_kept_in_any_round_in_the_order_of_the_pool():
    evidence, sentences, found = await merged(final="union")
    assert evidence == ["c", "a", "b"]
    assert sentences == [C, A, ("b", 0), B], "by passage, then by sentence; what is not in the pool is left out"
    assert found["trajectory"][0]["answer"] == "4 sentences of 3 passages"


async def test_the_last_set_leaves_out_what_the_last_adder_added_unless_the_selector_came_after_it():
    assert (await merged(final="last"))[:2] == (["b"], [("b", 0), B])
    assert (await merged(final="last", order="adder_first"))[:2] == (["a", "b"], [A, ("b", 0), B])


@pytest.mark.parametrize("condition", ["full_context", "oner"])
async def test_without_selection_all_of_the_pool_is_evidence(condition):
    evidence, sentences, _ = await merged(condition=condition)
    assert (evidence, sentences) == (["c", "a", "b", "d"], [])


POOL = [Passage(key, f"Title {key}", "x y", ("First one.", "Second one.")) for key in "abcdefg"]


def test_where_the_first_selection_can_not_be_read_the_five_best_passages_are_whole():
    assert FALLBACK_PASSAGES == 5
    chosen = SimpleNamespace(pool=POOL)
    assert _best_passages(chosen) == [(key, index) for key in "abcde" for index in (0, 1)]


def test_sentences_are_shown_with_title_and_index_and_only_those_there_are():
    assert _in_words([("b", 1), ("a", 0)], POOL) == ["Title b [1]: Second one.", "Title a [0]: First one."]
    assert _in_words([("a", 2), ("a", -1), ("z", 0)], POOL) == []


class Chosen(SimpleNamespace):
    """What a model named, with the step's fields kept."""

    def step(self, kind, **fields):
        return fields


@pytest.mark.parametrize(
    ("old", "now", "answer", "verdict"),
    [
        ([], [A, B], "2 sentences", "changed"),
        ([A], [A, B, C], "3 sentences (2 added)", "changed"),
        ([A, B], [A], "1 sentence (1 removed)", "changed"),
        ([A, B], [A, C], "2 sentences (1 added, 1 removed)", "changed"),
        ([A, B], [A, B], "2 sentences", "unchanged"),
        ([], [], "0 sentences", "unchanged"),
    ],
)
def test_a_step_says_how_the_evidence_changed(old, now, answer, verdict):
    update = evidence_update({"question": "Q", "selected": old}, Chosen(pool=POOL, calls=[]), now)
    [row] = update["trajectory"]
    assert (row["answer"], row["verdict"], row["sentences"]) == (answer, verdict, now)
    assert row["evidence"] == list(dict.fromkeys(key for key, _ in now))
    assert update["selected"] == now


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        (["1.0", "2"], ["1.0", "2"]),
        ([1, "2.0"], ["1", "2.0"]),
        ([2.1, "2.0"], ["2.1 (no text)", "2.0"]),
        ([True, "1.0"], ["True (no text)", "1.0"]),
        (["x", "1.0"], ["x", "1.0"]),
        ([], []),
    ],
)
def test_labels_of_whole_numbers_are_read_and_others_are_left_to_be_rejected(rows, labels):
    assert EvidenceLabels.model_validate({"evidence": rows}).evidence == labels


def test_labels_none_of_which_is_one_are_refused():
    with pytest.raises(ValueError, match=r"none of them is a label such as 2\.0"):
        EvidenceLabels.model_validate({"evidence": ["x", 2.1]})
