"""Links between passages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stores.build import add_to_index, build_index, rebuild_index, remove_from_index
from stores.index import open_index
from stores.links import MOST
from stores.passages import Passage
from tests.stores.halves import links_of

CORPUS = [
    ("Nevermind (album)", "Nevermind is the second album by Nirvana, and Nirvana made it in Van Nuys, Los Angeles."),
    ("Nirvana", "A band from Aberdeen, Washington. Its album Nevermind sold well."),
    ("Los Angeles", "A city in California."),
    ("Van Nuys, Los Angeles", "A part of the city."),
    ("Aberdeen", "A town."),
    ("Aberdeen, Washington", "Another town."),
    ("", "Nothing is called like this, though Nirvana is named."),
]


def test_a_passage_is_linked_to_those_whose_titles_it_names(tmp_path):
    links = links_of(tmp_path, CORPUS)
    found = [{row for mention in links.of(row) for row in mention.rows.tolist()} for row in range(len(CORPUS))]
    assert found == [{1, 3}, {5, 0}, set(), set(), set(), set(), {1}]


def test_names_are_in_the_order_of_the_text(tmp_path):
    (band, place) = links_of(tmp_path, CORPUS).of(0)
    assert (band.rows.tolist(), place.rows.tolist()) == ([1], [3])


def test_a_name_s_links_are_its_passages_times_those_that_name_it(tmp_path):
    corpus = [*CORPUS, ("Nirvana (British band)", "A band from London.")]
    (nirvana, _) = links_of(tmp_path, corpus).of(0)
    assert nirvana.rows.tolist() == [1, 7]
    assert nirvana.links == 2 * 2  # passages 0 and 6 name it


def test_a_passage_is_not_linked_to_itself_or_its_namesakes(tmp_path):
    links = links_of(tmp_path, [("Mercury (planet)", "Mercury is hot."), ("Mercury (element)", "Mercury is liquid.")])
    assert links.of(0) == links.of(1) == []


@pytest.mark.parametrize(("count", "linked"), [(MOST, True), (MOST + 1, False)])
def test_names_of_too_many_links_make_none(tmp_path, count, linked):
    links = links_of(tmp_path, [("Paris", "A city.")] + [("", f"Number {i} was in Paris.") for i in range(count)])
    assert bool(links.of(1)) is bool(links.of(count)) is linked


def test_a_corpus_without_titles_or_words_has_no_links(tmp_path):
    assert links_of(tmp_path / "untitled", [("", "Some words."), ("", "More words.")]).of(1) == []
    assert links_of(tmp_path / "wordless", [("?", "!"), ("the", "of")]).of(0) == []


NAMES = ["Ada", "Ada Lovelace", "Byron", "Lord Byron (poet)", "London", "London, Ontario", ""]
PASSAGES = st.tuples(st.sampled_from(NAMES), st.lists(st.sampled_from([*NAMES, "met", "in"]), min_size=1, max_size=6))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.dictionaries(st.integers(0, 9), PASSAGES, min_size=1, max_size=4)),
        st.tuples(st.just("remove"), st.sets(st.integers(0, 9), min_size=1, max_size=3)),
        st.tuples(st.just("rebuild"), st.none()),
    ),
    max_size=5,
)


def linked(name):
    """Ids of linked passages, with the number of links that each name makes."""
    index = open_index(name)
    ids = [passage.id for chunk in index.passages() for passage in chunk]
    return {
        ids[row]: [(m.links, sorted(ids[other] for other in m.rows.tolist())) for m in index._links.of(row)]
        for row in range(len(ids))
    }


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=st.dictionaries(st.integers(0, 9), PASSAGES, min_size=1, max_size=5), steps=STEPS)
def test_any_sequence_of_changes_gives_the_links_of_one_build(encoder, first, steps):
    def passages(given):
        return [Passage(f"p{n}", title, " ".join(["It", *words])) for n, (title, words) in given.items()]

    held = dict(first)
    build_index("pieces", passages(first))
    for step, change in steps:
        if step == "add":
            add_to_index("pieces", passages(change))
            held |= change
        elif step == "remove":
            gone = [n for n in change if n in held]
            if gone and len(gone) < len(held):
                remove_from_index("pieces", [f"p{n}" for n in gone])
                held = {n: passage for n, passage in held.items() if n not in gone}
        else:
            rebuild_index("pieces")
    build_index("whole", passages(held))
    assert linked("pieces") == linked("whole")


def test_the_files_hold_no_links_of_names_that_make_none(tmp_path):
    links_of(tmp_path, [("Paris", "A city.")] + [("", "In Paris.")] * (MOST + 1))
    assert np.load(tmp_path / "links" / "names.npy").size == 0
