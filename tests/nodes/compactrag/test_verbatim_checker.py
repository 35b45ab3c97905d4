"""Whether an answer stands in a passage, and whether a pair mentions an entity."""

from __future__ import annotations

import pytest

from nodes.compactrag.verbatim_checker import mentions, verbatim

TEXT = "He directed “Lilli” – a 1919 film by Martin Luther King Jr. It opened in Berlin’s Marmorhaus (7,000 seats)."


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("a 1919 film", "a 1919 film"),
        ('"Lilli"', "“Lilli”"),
        ("lilli", "Lilli"),
        ("Lilli.", "Lilli"),
        ("berlin's marmorhaus", "Berlin’s Marmorhaus"),
        ('"Lilli" - a 1919 film', "“Lilli” – a 1919 film"),
        ("Martin Luther King Jr.", "Martin Luther King Jr."),
        ("7,000 seats", "7,000 seats"),
        ("191", None),
        ("(7,000 seat", None),
        ("ill", None),
        ("a 1920 film", None),
        ("Lilli a film", None),
        ("", None),
        ("()[].*", None),
    ],
)
def test_an_answer_is_found_as_the_passage_spells_it_or_not_at_all(answer, found):
    assert verbatim(answer, [TEXT]) == found


def test_the_title_belongs_to_the_passage():
    assert verbatim("the glass orchard", ["It is a film.", "The Glass Orchard"]) == "The Glass Orchard"


def test_letters_whose_small_form_is_longer_do_not_shift_what_is_found():
    assert verbatim("paris", ["İİİİ was born in Paris."]) == "Paris"


@pytest.mark.parametrize(
    ("text", "entity", "named"),
    [
        ("Where did Ann Lee live?", "Ann Lee", True),
        ("Where did ANN LEE’s mother live?", "Ann Lee's", True),
        ("What is United States law?", "the United States", True),
        ("Where did Annabel live?", "Ann", False),
        ("", "Ann", False),
    ],
)
def test_entities_are_mentioned_as_whole_words(text, entity, named):
    assert mentions([text], entity) is named
