from __future__ import annotations

from collections import Counter

import pytest

from tests.training.revelator.conftest import BOOKS, BORN
from training.revelator.examples import SKILLS, Example, chosen, is_held_out
from training.revelator.sources import all_examples


@pytest.fixture
def examples(data) -> list[Example]:
    train, held, _ = all_examples(data)
    return train + held


def test_the_split_is_by_the_question_and_no_held_out_question_is_trained_on(data):
    train, held, _ = all_examples(data)
    assert held
    assert not any(is_held_out(example.root) for example in train)
    assert all(is_held_out(example.root) for example in held)
    for skill in SKILLS:
        asked = [{example.question.lower() for example in rows if example.skill == skill} for rows in (train, held)]
        assert not asked[0] & asked[1]


def test_a_choice_is_balanced_and_does_not_depend_on_the_order(examples):
    few = chosen(examples, 8, seed=1)
    assert few == chosen(reversed(examples), 8, seed=1)
    assert few != chosen(examples, 8, seed=2)
    labels = Counter(example.label for example in few if example.skill == "ending")
    assert labels == {"ended": 4, "continues": 4}
    routes = Counter(example.label for example in few if example.skill == "router")
    assert routes["straightforward"] == 1  # there is no more; its room goes to the others
    assert sum(routes.values()) == 8


def test_without_a_limit_all_are_chosen(examples):
    assert sorted(example.id for example in chosen(examples, None, seed=0)) == sorted(e.id for e in examples)


def test_the_fixture_has_held_out_questions():
    assert 0 < sum(is_held_out(BORN.format(book)) for book in BOOKS) < len(BOOKS)
