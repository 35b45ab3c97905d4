"""The sparse half."""

from __future__ import annotations

import pytest

from stores.sparse import tokenize
from tests.stores.halves import sparse_of

CORPUS = [
    ("Running", "The runner was running quickly through cities."),
    ("Vitamin C", "Ascorbic acid is found in citrus fruit."),
    ("Café", "Coffee houses of Zürich."),
    ("", "Nothing in common with the others."),
    ("Nevermind (album)", "The second record of a band from Seattle."),
]


@pytest.fixture
def sparse(tmp_path):
    return sparse_of(tmp_path, CORPUS)


def rows(sparse, query, k=10):
    return sparse.search(query, k)[0].tolist()


def test_queries_are_cut_and_stemmed_as_the_corpus_is(sparse):
    for _, text in CORPUS:
        assert tokenize(text) == tokenize(text.upper())
    assert rows(sparse, "runs") == rows(sparse, "RUNNING") == rows(sparse, "run") == [0]
    assert rows(sparse, "city") == [0]
    assert rows(sparse, "a cafe in Zurich") == rows(sparse, "A CAFÉ in ZÜRICH") == [2]


def test_decomposed_and_composed_accents_are_the_same_word():
    assert tokenize("Cafe\u0301") == tokenize("Café") == tokenize("cafe")


def test_letters_that_mean_something_alone_are_kept(sparse):
    assert tokenize("Vitamin C") == ["vitamin", "c"]
    assert rows(sparse, "c") == [1]


def test_apostrophes_leave_no_words_behind():
    assert tokenize("What's Mathew's father?") == tokenize("mathew father")


def test_scripts_without_spaces_and_emoji_are_searchable(tmp_path):
    sparse = sparse_of(tmp_path, [("", "東京は日本の首都です"), ("", "party 🎉 time"), ("", "العربية لغة")])
    assert rows(sparse, "日本") == [0]
    assert rows(sparse, "🎉") == [1]
    assert rows(sparse, "لغة") == [2]


@pytest.mark.parametrize("query", ["", "   ", "the of and", "xylophone", "?!", "\x00\x1b", "🎻"])
def test_what_shares_no_word_is_not_found(sparse, query):
    assert rows(sparse, query) == []


def test_only_positive_scores_are_returned_and_more_than_there_is_may_be_asked(sparse):
    found, scores = sparse.search("citrus", 1_000)
    assert found.tolist() == [1]
    assert (scores > 0).all()


def test_ties_go_to_the_lower_row_also_at_the_cut(tmp_path):
    sparse = sparse_of(tmp_path, [("", "same words here")] * 50)
    assert rows(sparse, "words", 7) == list(range(7))
    assert rows(sparse, "words", 50) == list(range(50))


def test_a_title_in_the_query_counts_extra_with_or_without_its_parentheses(tmp_path):
    filler = [("", f"nevermind album seattle band record {i} " * 3) for i in range(20)]
    sparse = sparse_of(tmp_path, [*filler, ("Nevermind (album)", "A record.")])
    assert rows(sparse, "Which band recorded Nevermind?", 1) == [20]
    assert rows(sparse, "the nevermind album", 1) == [20]


def test_repeated_words_of_a_query_count_once(sparse):
    once, many = sparse.search("citrus runner", 5), sparse.search("citrus runner runner runner", 5)
    assert once[0].tolist() == many[0].tolist()
    assert once[1].tolist() == many[1].tolist()


def test_a_corpus_without_words_is_searched_in_vain(tmp_path):
    assert rows(sparse_of(tmp_path, [("", "..."), ("", "the")]), "dots") == []


def test_a_query_of_a_hundred_thousand_characters_is_answered_quickly(sparse):
    assert rows(sparse, "citrus " + "word " * 20_000) == [1]
