from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import inference.heads.npz
import inference.heads.rewriter
from inference.errors import StoreError
from inference.heads.npz import save_weights
from inference.heads.rewriter import FORMS, Edit, find_answer, rewrite_questions, rewrite_with_answers
from inference.heads.trunk import get_trunk

REWRITTEN = {
    ("Where was he born?", "Albert Einstein"): "Where was Albert Einstein born?",
    ("What is his profession?", "Laurent Le Bon"): "What is Laurent Le Bon's profession?",
    ("When was this company founded?", "Siemens"): "When was Siemens founded?",
    ("Who directed the film that won the award?", "Parasite"): "Who directed Parasite?",
    ("Which river flows through this city?", "Vienna"): "Which river flows through Vienna?",
}


def test_the_words_that_stand_for_an_answer_are_replaced():
    assert rewrite_questions(list(REWRITTEN)) == list(REWRITTEN.values())


@pytest.mark.parametrize("question", ["Where was Ada Lovelace born?", "what is ada lovelace's house called"])
def test_a_question_that_has_the_answer_stays_as_it_is(question: str):
    assert rewrite_questions([(question, " Ada Lovelace ")]) == [question]


def test_an_answer_inside_another_word_does_not_count_as_there():
    (rewritten,) = rewrite_questions([("Where was this Austrian born?", "Austria")])
    assert "Austria " in f"{rewritten} "


@pytest.mark.parametrize(
    ("question", "answer"), [("Where was he born?", ""), ("Where was he born?", " \n"), ("", "x"), (" ", "x")]
)
def test_nothing_to_put_in_or_nowhere_to_put_it_changes_nothing(question: str, answer: str):
    assert rewrite_questions([(question, answer)]) == [question]


def test_numbered_references_are_replaced_lowest_first_everywhere():
    question = "Did #2 meet #1 before #12 met #1?"
    assert rewrite_questions([(question, r"Ada \1")]) == [r"Did #2 meet Ada \1 before #12 met Ada \1?"]
    assert rewrite_with_answers(question, ["Ada", "Bob", "Cy"]) == "Did Bob meet Ada before Cy met Ada?"


@pytest.mark.parametrize(
    "question",
    [
        "?",
        "Who",
        "??? !!!",
        "東京はどこ",
        "word " * 3_000,
        "Where was \ud83d he born?",
        "he\nhe\the",
        "x" * 9_000,
        "[SEP] he [CLS]",
    ],
)
@pytest.mark.parametrize("answer", ["Ada Lovelace", "the 1815 (first) edition", "東京", "\\1", "word " * 800])
def test_the_answer_is_never_lost(question: str, answer: str):
    (rewritten,) = rewrite_questions([(question, answer)])
    assert answer.strip() in rewritten


def test_words_around_the_edit_stay_as_they_are():
    question, answer = "Which  'Ünï' PRIZE did   he win — in May?", "Émile Zola"
    (rewritten,) = rewrite_questions([(question, answer)])
    before, _, after = rewritten.partition(answer)
    assert question.startswith(before)
    assert question.endswith(after)


def test_a_form_puts_its_marks_around_the_answer_and_no_second_article():
    assert Edit(10, 13, FORMS.index(("", "'s"))).applied("Where was his wife?", "Zola") == "Where was Zola's wife?"
    assert Edit(9, 11, FORMS.index(("the ", ""))).applied("Where is it?", "Louvre") == "Where is the Louvre?"
    assert Edit(9, 11, FORMS.index(("the ", ""))).applied("Where is it?", "The Hague") == "Where is The Hague?"


def test_several_answers_are_all_kept():
    found = rewrite_with_answers("Which of them was born first?", ["Ada Lovelace", "Charles Babbage"])
    assert "Ada Lovelace" in found
    assert "Charles Babbage" in found
    found = rewrite_with_answers(
        "Who was born first, the director of Jaws or the director of Alien?", ["A. Bee", "C. Dee"]
    )
    assert "A. Bee" in found
    assert "C. Dee" in found
    assert rewrite_with_answers("Where was he born?", []) == "Where was he born?"
    assert rewrite_with_answers("Where was he born?", ["", "Ada"]) == "Where was Ada born?"


def test_a_number_sign_of_an_answer_is_no_reference():
    question = "Were this song and this person from the same country?"
    rewritten = rewrite_with_answers(question, ["#1 Crush", "Bob Ray"])
    assert find_answer(rewritten, "#1 Crush")
    assert find_answer(rewritten, "Bob Ray")
    assert rewrite_with_answers("Did #2 sing #1?", ["#2 Girl", "#1 Crush"]) == "Did #1 Crush sing #2 Girl?"


@pytest.mark.parametrize("second", ["ann lee", "Cy"])
def test_no_answer_takes_the_place_of_one_before_it(second: str):
    question = "Did this one, this one and this one win?"
    rewritten = rewrite_with_answers(question, ["Ann Lee", second, "Bob Ray"])
    assert all(find_answer(rewritten, answer) for answer in ["Ann Lee", second, "Bob Ray"])


def test_not_even_of_one_that_is_not_the_last(monkeypatch: pytest.MonkeyPatch):
    edits = iter([Edit(4, 6, 0), Edit(17, 20, 0), Edit(0, 11, 0)])
    monkeypatch.setattr(inference.heads.rewriter, "_best_edit", lambda question, answer: next(edits))
    assert rewrite_with_answers("Did he know her?", ["Ann Lee", "Bo", "Cy"]) == "Did Ann Lee know Bo and Cy?"


def test_an_item_is_rewritten_alone_and_the_same_every_time():
    items = list(REWRITTEN)
    assert rewrite_questions(items[::-1]) == rewrite_questions(items)[::-1]
    with ThreadPoolExecutor(4) as pool:
        at_once = list(pool.map(lambda item: rewrite_questions([item])[0], items * 3))
    assert at_once == list(REWRITTEN.values()) * 3


def test_no_questions_nothing_rewritten():
    assert rewrite_questions([]) == []


def test_weights_of_something_else_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    save_weights(tmp_path / "rewriter.npz", {"span": np.zeros((2, 2), np.float32)})
    get_trunk()
    monkeypatch.setattr(inference.heads.npz, "files", lambda _: tmp_path)
    inference.heads.rewriter._head.cache_clear()
    with pytest.raises(StoreError, match=r"rewriter\.npz: the weights lack form, form_bias, span_bias") as caught:
        rewrite_questions([("Where was he born?", "Ada")])
    assert caught.value.hint == "make train-rewriter"
    inference.heads.rewriter._head.cache_clear()
