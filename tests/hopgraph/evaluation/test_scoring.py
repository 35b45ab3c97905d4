"""Scores of a result: facts of passages that share a title, and what a record says of it."""

from __future__ import annotations

import pytest

from hopgraph.evaluation.data import Question
from hopgraph.evaluation.scoring import record_of, score
from nodes.kit.steps import step
from stores.passages import Passage
from tests.hopgraph.evaluation.test_metrics import line, result

QUESTION = Question("q", "Who?", ("Paris",), gold_ids=("idol",), gold_sentences=(("American Idol", 0),))
PASSAGES = {
    "idol": Passage("idol", "American  idol", "Gold."),
    "other": Passage("other", "American Idol", "Another one of the same title."),
}


def facts(*sentences, starts=None):
    settled = step("root/merger", "aggregate", node="merger", sentences=list(sentences))
    found = score(result(trajectory=[settled]), QUESTION, PASSAGES, starts=starts)
    return found["fact_precision"], found["fact_recall"]


def test_a_fact_is_of_the_gold_passage_by_its_title_and_of_another_by_its_id():
    assert facts(("idol", 0)) == (1.0, 1.0)
    assert facts(("other", 0)) == (0.0, 0.0)
    assert facts(("idol", 0), ("other", 0)) == (0.5, 1.0)


def test_a_sentence_counts_from_the_first_of_its_article_where_its_piece_begins():
    assert facts(("idol", 1)) == (0.0, 0.0)
    assert facts(("idol", 0), starts={"other": 2}) == (1.0, 1.0)
    assert facts(("idol", 0), starts={"idol": 2}) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("fields", "unsupported"),
    [
        ({"notes": "none found"}, True),
        ({"notes": "none found", "evidence": ["film"]}, False),
        ({"notes": "none found", "status": "unanswerable"}, False),
        ({"notes": ""}, False),  # a method that does not search
        ({}, False),
    ],
)
def test_an_answer_without_evidence_of_a_method_that_searches_is_unsupported(fields, unsupported):
    assert record_of(line(0, 1, 1, **fields))["unsupported"] is unsupported


def test_a_record_says_whether_any_step_was_truncated_or_fell_back():
    whole = step("root/1", "answer", node="actor")
    cut, replaced = (
        step("root/2", "answer", node="actor", truncated=1),
        step("root/3", "answer", node="actor", fallback="a reason"),
    )
    for rows, expected in (
        ([whole], (False, False)),
        ([whole, cut], (True, False)),
        ([replaced, whole], (False, True)),
    ):
        record = record_of(line(0, 1, 1, trajectory=rows))
        assert (record["truncated"], record["fallback"]) == expected
    assert record_of(line(0, 1, 1))["error"] == ""
    assert record_of(line(0, 1, 1, error={"kind": "endpoint"}))["error"] == "endpoint"
