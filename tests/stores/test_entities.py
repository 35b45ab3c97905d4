"""Entities, by the real spaCy model."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from stores.entities import find_entities

TEXT = (
    "Days of Betrayal is a 1973 Czech film directed by Otakar Vávra. The first of two films, it premiered in Prague. "
    "Otakar  Vávra was born in Hradec Králové."
)


def test_people_places_and_dates_are_found_once_each():
    found = {entity.text: entity.label for entity in find_entities(TEXT)}
    assert found["Otakar Vávra"] == "PERSON"
    assert found["1973"] == "DATE"
    assert found["Prague"] == "GPE"
    assert len([text for text in found if "Vávra" in text]) == 1


def test_numbers_in_words_are_no_entities():
    assert not {"first", "two"} & {entity.text for entity in find_entities(TEXT)}


def test_a_text_without_any_has_none():
    assert find_entities("") == []
    assert find_entities("...") == []


def test_threads_do_not_disturb_one_another():
    with ThreadPoolExecutor(4) as pool:
        assert all(found == find_entities(TEXT) for found in pool.map(find_entities, [TEXT] * 12))
