"""Cases made of the extractor's training data."""

from __future__ import annotations

import pytest

from training.extractor_cases import apart, reversed_pair, training_cases, without_answer
from training.extractor_data import Example

CONTEXT = (
    "Who wrote Emma?\nEmma was written by Jane Austen.\n\nWhen was Emma out?\nIn 1815.\n\nIs it Jane Austen's?\nYes."
)
EMMA = Example("Who wrote Emma?", CONTEXT, "Jane Austen", CONTEXT.index("Jane"))


def test_without_the_right_pair_no_other_pair_has_the_answer_either():
    assert without_answer(EMMA) == Example("Who wrote Emma?", "When was Emma out?\nIn 1815.", "", -1)


@pytest.mark.parametrize(
    ("question", "said", "answer", "turned"),
    [
        ("Who wrote Emma?", "Jane Austen", "Jane Austen", "What did Jane Austen write?\nEmma"),
        ("Who produced Emma?", "Ann Lee", "Ann Lee", "What did Ann Lee produce?\nEmma"),
        ("Who directed Emma?", "Ann Lee", "Ann Lee", "What did Ann Lee direct?\nEmma"),
        ("Where was Ann Lee born?", "In Oslo.", "Oslo", "Who was born in Oslo?\nAnn Lee"),
        ("What label put out Emma?", "Emma came out at Columbia.", "Columbia", "What came out at Columbia?\nEmma"),
    ],
)
def test_a_pair_turned_round_has_the_answer_in_its_question(question, said, answer, turned):
    context = f"{question}\n{said}"
    found = reversed_pair(Example(question, context, answer, context.rindex(answer)))
    assert found is not None
    assert found.context == turned
    assert found.context[found.start :].startswith(answer)


def test_made_examples_have_their_answer_where_they_say_or_none_at_all():
    made = training_cases([EMMA] * 8)
    assert any(row.start < 0 for row in made)
    assert any(row.start >= 0 for row in made)
    for row in made:
        assert row.context[row.start :].startswith(row.answer) if row.start >= 0 else "Jane Austen" not in row.context


def test_what_the_score_of_no_answer_is_fitted_on_is_not_learnt_from():
    rows = [Example(f"Who is number {n}?", "Q?\nA", "A", 3) for n in range(200)]
    learnt, held = apart(rows)
    assert 5 < len(held) < 50
    assert {row.question for row in learnt}.isdisjoint(row.question for row in held)
    assert len(learnt) + len(held) == 200
