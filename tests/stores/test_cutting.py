from __future__ import annotations

import pytest

from inference.errors import InputError
from stores.cutting import cut_sentences, shorten_sentences, split_passage, word_count
from stores.passages import Passage


def article(sentences: int, words: int = 20) -> Passage:
    texts = tuple(" ".join([f"Sentence{n}"] + ["word"] * (words - 2) + ["end."]) for n in range(sentences))
    return Passage("a-1", "An article", " ".join(texts), texts)


def test_a_short_passage_comes_back_unchanged() -> None:
    passage = article(15)
    assert split_passage(passage) == [passage]
    assert split_passage(passage, max_words=100, longer_than=100) != [passage]


def test_an_article_is_cut_into_bounded_parts_with_every_sentence_once_and_in_order() -> None:
    passage = article(101)
    parts = split_passage(passage, max_words=150)
    assert [sentence for part in parts for sentence in part.sentences] == list(passage.sentences)
    assert max(word_count(part.text) for part in parts) <= 150
    assert min(word_count(part.text) for part in parts) >= 60
    assert all(part.text == " ".join(part.sentences) for part in parts)
    assert {part.title for part in parts} == {"An article"}
    assert {part.source for part in parts} == {"a-1"}
    assert len({part.id for part in parts}) == len(parts)
    assert all(part.id.startswith("a-1#") for part in parts)


def test_own_sentences_are_kept_even_where_they_are_longer_than_a_part() -> None:
    sentences = ("Not. Two sentences.", "long " * 400, "Last one.")
    parts = split_passage(Passage("x", "", " ".join(sentences), sentences))
    assert tuple(sentence for part in parts for sentence in part.sentences) == sentences


def test_an_article_without_sentences_gets_them() -> None:
    text = "Dr. Lee was born in St. Louis. He died there. " * 60
    parts = split_passage(Passage("x", "", text))
    assert {sentence for part in parts for sentence in part.sentences} == {
        "Dr. Lee was born in St. Louis.",
        "He died there.",
    }
    assert " ".join(part.text for part in parts) == text.strip()


def test_a_part_keeps_its_id_when_a_distant_sentence_changes() -> None:
    before = article(60)
    sentences = (*before.sentences[:-1], "Changed.")
    after = Passage(before.id, before.title, " ".join(sentences), sentences)
    ids = [[part.id for part in split_passage(passage)] for passage in (before, after)]
    assert ids[0][:-2] == ids[1][:-2]
    assert ids[0][-1] != ids[1][-1]


def test_equal_parts_of_one_article_have_different_ids() -> None:
    sentences = ("All work and no play makes Jack a dull boy.",) * 100
    parts = split_passage(Passage("x", "", " ".join(sentences), sentences), max_words=50, longer_than=50)
    assert len({part.id for part in parts}) == len(parts) > 10


def test_what_has_no_sentences_is_cut_at_words_and_what_has_no_words_anywhere() -> None:
    text = ("name " * 1000).strip()
    pieces = shorten_sentences([text, "Short one.", "字" * 5000], 100)
    assert max(map(word_count, pieces)) <= 100
    assert "".join("".join(pieces).split()) == "name" * 1000 + "Shortone." + "字" * 5000
    assert "Short one." in pieces


def test_the_last_two_parts_are_balanced() -> None:
    groups = cut_sentences(["a a a a a."] * 11, 50)
    assert [len(group) for group in groups] == [6, 5] or [len(group) for group in groups] == [5, 6]
    assert cut_sentences([], 50) == []


@pytest.mark.parametrize("bound", [0, -1])
def test_a_bound_below_one_word_is_refused(bound: int) -> None:
    with pytest.raises(InputError, match="max_words"):
        cut_sentences(["One."], bound)
    with pytest.raises(InputError, match="max_words"):
        shorten_sentences(["One."], bound)
