from __future__ import annotations

from stores.passages import Passage
from tests.training.revelator.compound.phelps import PHELPS
from training.revelator.compound.entities import entities_of


def test_an_entity_has_the_passages_that_bear_its_title_and_those_that_name_it():
    (phelps,) = entities_of(PHELPS)
    assert (phelps.name, [passage.id for passage in phelps.passages]) == ("Phelps", ["p1", "p2", "p3"])
    assert [passage.id for passage in entities_of(PHELPS, documents=2)[0].passages] == ["p1", "p2"]


def test_a_name_that_two_titles_share_is_no_entity():
    both = [Passage(str(n), title, f"Text {n}.") for n, title in enumerate(["Mercury (planet)", "Mercury (metal)"] * 2)]
    assert entities_of(both) == []


def test_a_title_that_says_which_one_it_means_has_no_mentions():
    rows = [Passage("1", "Ivan (singer)", "He sings."), Passage("2", "Tsars", "Ivan was the first.")]
    assert entities_of(rows) == []
    (ivan,) = entities_of([*rows, Passage("3", "Ivan (singer)", "He toured.")])
    assert (ivan.name, [passage.id for passage in ivan.passages]) == ("Ivan", ["1", "3"])
