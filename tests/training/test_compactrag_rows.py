from __future__ import annotations

import random

import pytest

from inference.heads.pair_context import pairs_in
from training.compactrag_rows import (
    ExtractorExample,
    RewriterExample,
    extractor_rows,
    masked,
    rewriter_rows,
    with_pronoun,
)


def written(**changes) -> ExtractorExample:
    example = {
        "sub_question": "Which country is the Eiffel Tower in?",
        "pair": {"question": "Where is the Eiffel Tower situated?", "answer": "Paris, France"},
        "span": "France",
        "distractors": [
            {"question": "What is the height of the Eiffel Tower?", "answer": "330 metres"},
            {"question": "Which city hosts the Colosseum?", "answer": "Rome, Italy"},
        ],
    }
    return ExtractorExample.model_validate({**example, **changes})


def one(example, seed=0):
    (row,) = extractor_rows([example], "p", random.Random(seed))
    return row


def test_the_span_is_marked_in_the_right_pair_wherever_that_stands():
    places = set()
    for seed in range(20):
        row = one(written(), seed)
        start = row["answers"]["answer_start"][0]
        assert row["context"][start : start + len("France")] == "France"
        pairs = pairs_in(row["context"])
        assert len(pairs) == 3
        places.add(next(place for place, pair in enumerate(pairs) if pair.answer <= start < pair.end))
    assert places == {0, 1, 2}


def test_a_span_may_stand_in_the_pairs_question():
    pair = {"question": "What did Vera Kim write?", "answer": "Dune Road"}
    row = one(written(sub_question="Who wrote Dune Road?", pair=pair, span="Vera Kim"))
    start = row["answers"]["answer_start"][0]
    assert row["context"][start:].startswith("Vera Kim write?\nDune Road")


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"span": "Spain"}, "without the span in the pair"),
        ({"span": "Eiffel Tower"}, "answered by words of the question"),
        ({"distractors": [{"question": "Where?", "answer": "In France."}]}, "without a distractor"),
    ],
)
def test_examples_that_teach_something_wrong_are_left_out(changes, cause):
    assert one(written(**changes)) == cause


def test_a_distractor_with_the_answer_is_dropped():
    distractors = [{"question": "Where?", "answer": "In France."}, {"question": "How high?", "answer": "330 metres"}]
    row = one(written(distractors=distractors))
    assert "In France" not in row["context"]
    assert "330 metres" in row["context"]


def test_line_breaks_in_a_reply_do_not_make_pairs():
    row = one(written(distractors=[{"question": "How\n\nhigh?", "answer": "330\n\nmetres"}]))
    assert len(pairs_in(row["context"])) == 2


def rewriting(**changes) -> RewriterExample:
    example = {
        "ambiguous": "Where was he born?",
        "entity": "Albert Einstein",
        "kind": "person",
        "rewritten": "Where was Albert Einstein born?",
    }
    return RewriterExample.model_validate({**example, **changes})


def test_an_ambiguous_question_comes_masked_and_with_a_pronoun_too():
    rows = list(rewriter_rows([rewriting(ambiguous="Where was the physicist born?")], "p", random.Random(0)))
    assert {row["output"] for row in rows} == {"Where was Albert Einstein born?"}
    asked = [row["input"].removesuffix(" | prev_answer: Albert Einstein") for row in rows]
    assert asked[:2] == ["Q: Where was the physicist born?", "Q: Where was this person born?"]
    assert asked[2] in ("Q: Where was he born?", "Q: Where was she born?")
    assert len({row["id"] for row in rows}) == 3


def test_equal_questions_come_once():
    rows = list(rewriter_rows([rewriting(kind="thing", ambiguous="Where was it born?")], "p", random.Random(0)))
    assert len(rows) == 2


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"rewritten": "Where was Einstein born?"}, "without the entity, once, in the rewritten question"),
        (
            {"entity": "Ann", "rewritten": "Is Ann older than Ann Lee?"},
            "without the entity, once, in the rewritten question",
        ),
        ({"rewritten": "Albert Einstein?"}, "with no question around the entity"),
        ({"ambiguous": "Where was Albert Einstein born?"}, "with the entity in the ambiguous question"),
    ],
)
def test_rewritings_that_teach_something_wrong_are_left_out(changes, cause):
    assert list(rewriter_rows([rewriting(**changes)], "p", random.Random(0))) == [cause]


@pytest.mark.parametrize(
    ("question", "pronoun"),
    [
        ("Where was * shot?", "Where was it shot?"),
        ("Who directed *?", "Who directed it?"),
        ("Who is *'s director?", "Who is its director?"),
        ("Is the author of * alive?", "Is the author of it alive?"),
        ("* came out when?", "It came out when?"),
    ],
)
def test_a_pronoun_has_the_case_of_its_place(question, pronoun):
    assert with_pronoun(*_around(question, "work"), random.Random(0)) == pronoun


def test_persons_are_he_and_she():
    draws = [with_pronoun("Who met ", "person", "?", random.Random(seed)) for seed in range(20)]
    assert set(draws) == {"Who met him?", "Who met her?"}


def test_a_mask_begins_a_question_with_a_capital():
    assert masked(*_around("* is how old?", "place")) == "This place is how old?"


def _around(question, kind):
    before, _, after = question.partition("*")
    return before, kind, after
