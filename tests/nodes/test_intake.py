"""What a run's input may be, and what is said of one that may not."""

from __future__ import annotations

import pytest

from inference.errors import InputError
from nodes.baselines.context import NoRetrievalContext
from nodes.compactrag.context import CompactContext
from nodes.intake import MAX_QUESTION, check_input, check_passage, check_question, store_given
from nodes.kit.context import Context
from stores.build import build_index
from stores.given import get_given
from stores.passages import Passage


@pytest.fixture
def index(home):
    build_index("small", [Passage("film", "Tide", "Tide is a film by Ann Lee.")])
    return "small"


def test_a_question_has_20_000_characters_at_most():
    assert MAX_QUESTION == 20_000
    assert check_question(f" {'x' * 20_000}\n") == "x" * 20_000
    with pytest.raises(InputError, match="question: has 20,001 characters, at most 20,000 are allowed"):
        check_question("x" * 20_001)


@pytest.mark.parametrize(
    ("question", "said"), [(None, "must be text, not NoneType"), (7, "must be text, not int"), (" \n", "is empty")]
)
def test_a_question_is_a_text_with_something_in_it(question, said):
    with pytest.raises(InputError, match=f"question: {said}"):
        check_question(question)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (7, "x: must be a passage id or an object"),
        ({}, "x: must be a passage id or an object"),
        ({"text": 7}, "x: must be a passage id or an object"),
        ({"text": " "}, "x: must be a passage id or an object"),
        ({"text": "a", "title": 7}, "x.title: must be text"),
        ({"text": "a", "sentences": "a"}, "x.sentences: must be a list of non-empty texts"),
        ({"text": "a", "sentences": ["a", " "]}, "x.sentences: must be a list of non-empty texts"),
        ({"text": "a", "sentences": ["a", 7]}, "x.sentences: must be a list of non-empty texts"),
    ],
)
def test_a_malformed_passage_is_named_with_its_field(row, said):
    with pytest.raises(InputError) as refused:
        check_passage(row, "x")
    assert refused.value.message.startswith(said)


@pytest.mark.parametrize("row", ["an id", {"text": "a"}, {"text": "a", "title": "", "sentences": ["a"]}])
def test_an_id_or_an_object_with_a_text_is_a_passage(row):
    check_passage(row, "x")


def test_given_passages_are_a_list_with_something_in_it(home):
    with pytest.raises(InputError, match="contexts: must be a list, not dict"):
        check_input(Context(), {})
    with pytest.raises(InputError, match="contexts: is empty"):
        check_input(Context(), [])
    with pytest.raises(InputError, match=r"contexts\[1\]: must be a passage id"):
        check_input(Context(), [{"text": "a"}, None])


def test_an_index_is_needed_to_search_and_for_ids_and_for_nothing_else(index):
    row = {"text": "a"}
    with pytest.raises(InputError, match="index is missing"):
        check_input(Context(), None)
    with pytest.raises(InputError, match="index is missing"):
        check_input(Context(), ["film"])
    assert check_input(Context(), [row]) == (None, [row], {})
    assert check_input(Context(index=index), [row]) == (None, [row], {})
    assert check_input(NoRetrievalContext(), None) == (None, None, {})
    searched, rows, _ = check_input(Context(index=index), None)
    assert (searched["name"], rows) == ("small", None)
    known, rows, _ = check_input(Context(index=index), ["film", row])
    assert (known["name"], rows) == ("small", ["film", row])
    with pytest.raises(InputError, match="contexts: passage 'gone' is not in index small"):
        check_input(Context(index=index), ["film", "gone"])


@pytest.mark.parametrize(
    ("rows", "fits"), [(["film"], True), (["film", {"text": "a"}], False), ([{"text": "a"}], False)]
)
def test_a_knowledge_base_answers_from_indexed_passages_alone(index, monkeypatch, rows, fits):
    monkeypatch.setattr("nodes.intake.pairs_ref", lambda ref: {"id": ref["name"]})
    context = CompactContext(index=index)
    if fits:
        assert check_input(context, rows)[2] == {"knowledge": {"id": "small"}}
        assert check_input(context, None)[0]["name"] == "small"
    else:
        with pytest.raises(InputError, match="compactrag answers from a knowledge base"):
            check_input(context, rows)


def test_an_override_of_a_prompt_is_checked_by_its_field(index):
    with pytest.raises(InputError, match="prompt_answer:1: unknown variable"):
        check_input(NoRetrievalContext(prompt_answer="{{nothing}}"), None)


def test_given_passages_and_ids_keep_their_order_and_lose_repeats(home):
    rows = [{"text": "A.", "title": "a"}, "film", {"text": "B."}, {"text": "A.", "title": "a"}, "film"]
    first, film, second = store_given(rows)
    assert film == "film"
    assert [(passage.title, passage.text) for passage in get_given([first, second])] == [("a", "A."), ("", "B.")]
