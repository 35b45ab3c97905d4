from __future__ import annotations

import pytest

from tests.training.revelator.compound.phelps import BORN, ENTITY, PHELPS, RETIRED
from training.revelator.compound.checks import merged_fault, part_fault

MERGED = "When was Phelps born, and when did he retire?"


@pytest.mark.parametrize(
    ("question", "answer", "fault"),
    [
        ("When was Phelps born?", "1985", ""),
        ("", "", "no question"),
        ("Phelps was born when", "1985", "no question"),
        ("When was Phelps born?", "", "answer not of a few words"),
        ("When was Phelps born?", "in the year of our lord of 1985 I think", "answer not of a few words"),
        ("When was Phelps born?", "1986", "answer not in the passage"),
        ("When was Phelps born?", "985", "answer not in the passage"),
        ("When was he born?", "1985", "entity not named"),
        ("Was Phelps born in 1985?", "1985", "answer given away"),
        ("In which year was Phelps born?", "1985", "a dev question"),
    ],
)
def test_a_simple_question_is_refused_by_cause(question, answer, fault):
    assert part_fault(question, answer, ENTITY, PHELPS[0], [], {"in which year was phelps born"}) == fault


def test_a_simple_question_that_asks_for_the_same_again_is_refused():
    assert (
        part_fault("What is the year of Phelps's birth?", "1985", ENTITY, PHELPS[0], [BORN]) == "repeats another part"
    )


@pytest.mark.parametrize(
    ("question", "fault"),
    [
        (MERGED, ""),
        ("", "declined"),
        ("No.", "no question"),
        ("When was he born, and when did he retire?", "entity not named"),
        ("Was Phelps born in 1985, and when did he retire?", "answer given away"),
        ("When was Phelps born?", "a part is lost"),
    ],
)
def test_a_compound_question_is_refused_by_cause(question, fault):
    assert merged_fault(question, ENTITY, [BORN, RETIRED]) == fault
