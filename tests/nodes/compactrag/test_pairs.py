"""CompactRAG's pairs: what is read, which pair an answer comes from, and in which order they are evidence."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from nodes.compactrag.answer_extractor import _block, _pair_at
from nodes.compactrag.context import CompactContext
from nodes.compactrag.dag import build_dag
from nodes.compactrag.pair_collector import _ranked, resolved, synthesizer_prompt
from nodes.compactrag.pair_writer import _drafts, _output
from nodes.compactrag.pairs import pair_reference
from nodes.compactrag.question_decomposer import Decomposition, _written
from nodes.compactrag.verbatim_checker import _key, mentions, verbatim
from stores.readings import Pair


def test_an_answer_belongs_to_the_pair_in_which_it_begins():
    blocks = ["ab?\nc", "d?\nef", "g?\nh"]
    text = "\n\n".join(blocks)
    for number, block in enumerate(blocks):
        begins = text.index(block)
        assert {_pair_at(at, blocks) for at in range(begins, begins + len(block))} == {number}
    assert _pair_at(len(text) + 10, blocks) == 2


def test_a_pair_is_a_line_each_for_question_and_answer():
    pair = Pair(passage="p", number=1, question="Who  directed Alpha?", answer="Ann\nLee")
    assert _block(pair) == "Who directed Alpha?\nAnn Lee"
    found = pair_reference(pair, 0.123456)
    assert (found["preview"], found["score"]) == ("Who directed Alpha? Ann Lee", 0.1235)


def refs(*keys):
    return [{"id": key, "passage": key, "preview": key, "score": 1.0} for key in keys]


def state(*rows):
    plan, _ = build_dag([(f"Question {number}?", []) for number in range(len(rows))], "Q", 8)
    return {"plan": [{**item, "pairs": refs(*keys)} for item, keys in zip(plan, rows, strict=True)]}


def test_pairs_are_ranked_rank_by_rank_each_once():
    assert [ref["id"] for ref in _ranked(state("abc", "da", ""))] == ["a", "d", "b", "c"]


def test_sub_questions_are_shown_with_the_answers_that_were_found():
    given = state("a", "b")
    given["plan"][0] |= {"rewritten": "Who?", "answer": "Ann"}
    given["plan"][1] |= {"rewritten": "Where?"}
    assert resolved(given) == {"subquestions": "1. Who? -> Ann\n2. Where?"}


def test_without_extractor_the_synthesis_has_a_prompt_of_its_own():
    assert synthesizer_prompt(CompactContext()) == "compactrag/synthesizer"
    assert synthesizer_prompt(CompactContext(ablate=["rewriter"])) == "compactrag/synthesizer"
    assert synthesizer_prompt(CompactContext(ablate=["extractor"])) == "compactrag/synthesizer_pairs"


def test_a_plan_is_written_with_its_dependencies():
    plan, _ = build_dag([("Who?", []), ("What?", []), ("Did #1 know #2?", [])], "Q", 8)
    assert [_written(item) for item in plan] == ["1. Who?", "2. What?", "3. Did #1 know #2?  (needs 1, 2)"]


def rows(count, **fields):
    return [{"question": f"Q{number}?", "answer": "A", **fields} for number in range(count)]


def read(qa, facts=None, most=3):
    values = {"qa": qa} if facts is None else {"qa": qa, "atomic_facts": facts}
    return _output(most, facts is not None).model_validate(values)


def test_surplus_and_malformed_pairs_are_left_out_one_by_one():
    assert [row.question for row in read(rows(5)).qa] == ["Q0?", "Q1?", "Q2?"]
    assert len(read([{"question": 1}, *rows(1), "x"]).qa) == 1
    assert read(rows(1), ["one", 2, "x" * 301, "two", "three", "four"]).atomic_facts == ["one", "two", "three"]
    for unusable in ([], [{"question": 1}], "none"):
        with pytest.raises(ValidationError):
            read(unusable)


@pytest.mark.parametrize(("question", "answer", "kept"), [(200, 300, 2), (201, 300, 1), (200, 301, 1)])
def test_a_question_has_200_characters_at_most_and_an_answer_300(question, answer, kept):
    long = {"question": "q" * question, "answer": "a" * answer}
    assert len(read([*rows(1), long]).qa) == kept


def test_a_reading_may_be_bounded_by_the_schema():
    schema = _output(24, True).model_json_schema()["properties"]
    assert (schema["qa"]["minItems"], schema["qa"]["maxItems"]) == (1, 24)
    assert (schema["atomic_facts"].get("minItems"), schema["atomic_facts"]["maxItems"]) == (None, 24)
    assert "atomic_facts" not in _output(24, False).model_json_schema()["properties"]


@pytest.mark.parametrize("coverage", [True, False])
def test_drafts_are_not_verbatim_until_they_are_checked(coverage):
    [draft] = _drafts(read(rows(1)).qa, coverage=coverage)
    assert (draft["verbatim"], draft["coverage"]) == (False, coverage)


@pytest.mark.parametrize(
    ("count", "needs", "fits"), [(1, 0, True), (16, 8, True), (0, 0, False), (17, 0, False), (1, 9, False)]
)
def test_a_decomposition_has_1_to_16_sub_questions_of_8_dependencies_at_most(count, needs, fits):
    rows = [{"question": "Who?", "depends_on": [1] * needs}] * count
    if fits:
        assert len(Decomposition.model_validate({"subquestions": rows}).subquestions) == count
    else:
        with pytest.raises(ValidationError):
            Decomposition.model_validate({"subquestions": rows})


@pytest.mark.parametrize(
    ("answer", "text", "found"),
    [
        ("art", "Bartok made art.", "art"),  # inside a word first, then as one
        ("art", "art", "art"),
        ("art", "Art of fugue", "Art"),
        ("art", "state-of-the-art", "art"),
        ("art", "an art", "art"),
        ("art", "arts", None),
        ("art", "my_art", None),
        ("art", "art2", None),
        ("'art'", "the art of", "art"),
        ("(1912)", "in (1912), then", "(1912)"),
        ("a", "b a", "a"),
    ],
)
def test_an_answer_is_whole_words_anywhere_in_the_text(answer, text, found):
    assert verbatim(answer, [text]) == found


def test_a_pair_is_known_by_the_words_of_both_its_sides():
    base = {"question": "Who directed Alpha?", "answer": "Ann Lee"}
    assert _key({"question": "who directed  ALPHA", "answer": "ann lee."}) == _key(base)
    assert _key({**base, "answer": "Ann"}) != _key(base)
    assert _key({**base, "question": "Who wrote Alpha?"}) != _key(base)


def test_an_entity_without_letters_is_mentioned_anywhere():
    assert mentions([], "the ") is True
    assert mentions([], "Ann") is False
    assert mentions(["Bob", "Ann"], "Ann") is True
