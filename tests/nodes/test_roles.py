"""Roles that several methods share: routes as models spell them, sub-questions, chains of hops, a final answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Literal

import pytest
from pydantic import ValidationError

from inference.errors import InputError
from nodes.analyzer import Subquestions, ThoughtAndSubquestions
from nodes.chain import chain_evidence, hop_id, next_hop, written
from nodes.generator import read_answer
from nodes.hop import _kept
from nodes.kit.context import Context
from nodes.router import given_route, normalized


@pytest.mark.parametrize(
    ("label", "route"),
    [
        ("Single-step question", "single_step"),
        (" COMPLEX. ", "complex"),
        ("single  step", "single_step"),
        ("compound question", "compound"),
        (3, 3),
        (None, None),
    ],
)
def test_a_route_is_read_as_models_spell_it(label, route):
    assert normalized(label) == route


def test_a_route_that_is_given_has_to_be_one():
    routes = Literal["simple", "complex"]
    assert given_route({"gold_route": "simple"}, routes) == "simple"
    assert given_route({}, routes) is None
    with pytest.raises(InputError, match="gold_route: 'hard' is none"):
        given_route({"gold_route": "hard"}, routes)


@pytest.mark.parametrize("output", [Subquestions, ThoughtAndSubquestions])
@pytest.mark.parametrize(("count", "fits"), [(0, True), (8, True), (9, False)])
def test_there_are_eight_sub_questions_at_most(output, count, fits):
    values = {"subquestions": ["Who?"] * count, "thought": "Why."}
    if output is Subquestions:
        del values["thought"]
    if fits:
        assert len(output.model_validate(values).subquestions) == count
    else:
        with pytest.raises(ValidationError):
            output.model_validate(values)


def ref(key):
    return {"id": key, "title": key, "score": 1.0}


def hop(answer, *kept):
    return {"question": "Who?", "answer": answer, "retrieved": [ref("a"), ref("b"), ref("c")], "kept": list(kept)}


def test_hops_count_from_1_and_an_unknown_answer_is_said():
    chain = [hop("Ann", "b"), hop("", "a", "b")]
    assert (next_hop({"chain": []}), next_hop({"chain": chain})) == (1, 3)
    assert hop_id(3) == "root/3"
    assert written(chain) == ["1. Who? Answer: Ann", "2. Who? Answer: unknown"]
    assert [row["id"] for row in chain_evidence({"chain": chain})] == ["b", "a"]


def judged(*relevant):
    return [{"id": key, "relevant": key in relevant} for key in "abc"]


@pytest.mark.parametrize(
    ("candidates", "verdicts", "kept", "flagged"),
    [
        ("abc", judged("b", "c"), ["b", "c"], False),
        ("abc", judged(), ["a"], True),
        ("abc", [], ["a", "b", "c"], False),
        ("", [], [], False),
    ],
)
def test_relevant_passages_are_kept_or_else_the_top_one(candidates, verdicts, kept, flagged):
    found, was_flagged = _kept({"candidates": [ref(key) for key in candidates], "judged": verdicts})
    assert ([row["id"] for row in found], was_flagged) == (kept, flagged)


@pytest.mark.parametrize(
    ("answer", "abstain", "final", "expected"),
    [
        ("Ann  Lee", "on", True, ("Ann Lee", "answered", "")),
        ("Unknown", "on", True, ("", "unanswerable", "Unknown")),
        ("Unknown", "off", True, ("Unknown", "answered", "")),
        ("Unknown", "off", False, ("", "unanswerable", "Unknown")),
        ("The passages do not say.", "off", True, ("", "unanswerable", "The passages do not say.")),
        ("", "off", True, ("", "unanswerable", "")),
    ],
)
def test_a_final_answer_may_be_a_word_that_abstains_where_abstaining_is_off(answer, abstain, final, expected):
    found = read_answer(SimpleNamespace(answer=answer), Context(abstain=abstain), final=final)
    assert (found["answer"], found["status"], found["abstention"]) == expected


def test_without_an_output_the_run_has_failed():
    assert read_answer(None, Context()) == {"answer": "", "status": "failed", "abstention": ""}
