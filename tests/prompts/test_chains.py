"""Prompts that show a chain of steps: their demonstrations look like real chains, and they say what "unknown" means."""

from __future__ import annotations

import re

import pytest

from inference.limits import UNKNOWN
from nodes.chain import Hop, written
from prompts.loader import load_prompt

CHAINS = ("hanrag/refiner", "hanrag/ending", "self_ask/asker", "hanrag/aggregator")


def instructions(name: str) -> str:
    variables = dict.fromkeys(load_prompt(name).variables, "?")
    return load_prompt(name).render(variables)[0].content


@pytest.mark.parametrize("name", CHAINS)
def test_demonstrations_have_one_hop_a_line_as_real_chains_do(name):
    shown = [line for line in instructions(name).splitlines() if re.search(r"\d\. .*\bAnswer: ", line)]
    assert shown
    for line in shown:
        found = re.fullmatch(r"(\d)\. (.*\?) Answer: (.*)", line)
        assert found
        assert " Answer: " not in found[2]
        hops = [Hop(question=found[2], answer=found[3].replace(UNKNOWN, ""))] * int(found[1])  # type: ignore[typeddict-item]
        assert written(hops)[-1] == line


@pytest.mark.parametrize("name", CHAINS)
def test_what_is_unknown_has_a_rule(name):
    assert re.search(rf"\b{UNKNOWN}\b", instructions(name).partition("Example")[0])


@pytest.mark.parametrize("name", ["hanrag/refiner", "self_ask/asker"])
def test_an_unknown_answer_is_asked_for_in_other_words(name):
    rules = " ".join(instructions(name).split())
    assert "in other words" in rules
    assert "never repeat" in rules


def test_the_refiner_s_demonstration_does_not_repeat_a_question_without_an_answer():
    example = instructions("hanrag/refiner").rpartition("Example question:")[2]
    [missing] = re.findall(rf"\d\. (.*) Answer: {UNKNOWN}", example)
    assert f'"question": "{missing}"' not in example
    assert '"question": "' in example


def test_the_answer_is_shown_for_yes_or_no_and_the_aggregator_decides_comparisons():
    assert re.search(r'\{"answer": "(yes|no)"\}', instructions("hanrag/answer"))
    assert re.search(r'\{"answer": "(yes|no)"\}', instructions("hanrag/aggregator"))


def test_a_passage_with_a_part_of_the_answer_is_relevant():
    assert "a part of it" in instructions("hanrag/relevance")
    assert instructions("hanrag/relevance").count('{"relevant": true}') == 3
