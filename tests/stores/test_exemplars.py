from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from inference.errors import InputError
from inference.settings import get_settings
from stores.exemplars import choose_exemplars, load_exemplars, read_exemplars

GOOD = """\
Notes that nobody reads.

# 1 hop

## a1 (mine)
> Who wrote Emma?

1. one fact
   Retrieve: Who wrote Emma?

# 2 hops

## b1
> Where was the author of Emma born?

1. the author comes first
   Retrieve: Who wrote Emma?
2. then the place
   Answer: Where was she born?
"""


@pytest.fixture
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Puts a text in the place of the project's exemplars."""

    def put(text: str) -> Path:
        path = tmp_path / "mine.md"
        path.write_text(text, "utf-8")
        monkeypatch.setenv("HOPGRAPH_EXEMPLARS", str(path))
        get_settings.cache_clear()
        return path

    return put


def test_ten_exemplars_a_hop_count_with_as_many_retrievals_as_hops():
    exemplars = load_exemplars()
    assert Counter(exemplar.hops for exemplar in exemplars) == {1: 10, 2: 10, 3: 10, 4: 10}
    for exemplar in exemplars:
        assert sum(step.action == "Retrieve" for step in exemplar.steps) == exemplar.hops, exemplar.id
        assert all(step.thought and step.question for step in exemplar.steps), exemplar.id
        assert exemplar.source, exemplar.id


def test_a_file_is_read_as_it_is_written():
    one, two = read_exemplars(GOOD, "mine.md")
    assert (one.id, one.source, one.hops, one.question) == ("a1", "mine", 1, "Who wrote Emma?")
    assert (two.id, two.source, two.hops) == ("b1", "", 2)
    assert [(step.thought, step.action, step.question) for step in two.steps] == [
        ("the author comes first", "Retrieve", "Who wrote Emma?"),
        ("then the place", "Answer", "Where was she born?"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("> Who wrote Emma?\n", "", "line 5: exemplar 'a1' has no field 'question'"),
        ("> Who wrote Emma?\n", ">\n", "line 6: field 'question' is empty"),
        ("> Who wrote Emma?\n", "> Who\n> wrote Emma?\n", "line 7: field 'question' is given twice"),
        ("1. one fact\n   Retrieve: Who wrote Emma?\n", "", "line 5: exemplar 'a1' has no steps"),
        ("   Retrieve: Who wrote Emma?\n\n#", "#", "line 5: exemplar 'a1': field 'action' is missing in its last step"),
        ("   Retrieve: Who wrote Emma?\n2.", "2.", "line 17: field 'action' is missing in the step before"),
        ("   Answer:", "   Guess:", "line 19: field 'action' is 'Guess', not Retrieve or Answer"),
        ("   Answer: Where was she born?", "   Answer:", "line 19: field 'question' of the step is empty"),
        ("1. one fact\n", "", "line 8: field 'thought' is missing"),
        ("2. then the place", "3. then the place", "line 18: step 2 is expected, not 3"),
        ("## b1", "## a1", "line 13: id 'a1' is taken by line 5"),
        ("# 2 hops\n", "# 2 hops\nloose text\n", "line 12: 'loose text' belongs to no exemplar"),
        ("1. one fact", "one fact", "line 8: 'one fact' is no question, thought or action"),
    ],
)
def test_a_malformed_file_is_refused_naming_file_line_and_field(old: str, new: str, complaint: str):
    assert old in GOOD
    with pytest.raises(InputError) as caught:
        read_exemplars(GOOD.replace(old, new, 1), "mine.md")
    assert caught.value.message.startswith("mine.md, ")
    assert complaint in caught.value.message
    assert caught.value.hint


def test_an_own_file_takes_the_place_of_the_projects(own_file):
    own_file(GOOD)
    assert [exemplar.id for exemplar in load_exemplars()] == ["a1", "b1"]


def test_an_edited_file_is_read_again(own_file):
    own_file(GOOD)
    load_exemplars()
    own_file(GOOD.replace("## a1", "## a2"))
    assert load_exemplars()[0].id == "a2"


def test_an_own_file_that_is_missing_or_empty_is_named(own_file):
    path = own_file("no exemplars here\n")
    with pytest.raises(InputError, match="holds no exemplar"):
        load_exemplars()
    path.unlink()
    with pytest.raises(InputError, match=r"mine\.md: can't be read"):
        load_exemplars()


def test_by_complexity_the_hop_count_decides_and_then_similarity():
    question = "Which film has the director who was born earlier, Jaws or Alien?"
    chosen = choose_exemplars(question, "complexity", hops=4, count=3)
    assert [exemplar.hops for exemplar in chosen] == [4, 4, 4]
    assert "director who" in chosen[0].question
    assert {exemplar.hops for exemplar in choose_exemplars(question, "complexity", hops=1, count=10)} == {1}


def test_by_similarity_the_hop_count_does_not_matter():
    question = "Which film has the director who was born earlier, Jaws or Alien?"
    chosen = choose_exemplars(question, "similarity", hops=1, count=1)
    assert [exemplar.hops for exemplar in chosen] == [4]
    assert chosen == choose_exemplars(question, "similarity", hops=3, count=1)


def test_a_hop_count_without_exemplars_falls_to_the_nearest(own_file):
    own_file(GOOD)
    assert [exemplar.id for exemplar in choose_exemplars("Who?", "complexity", hops=4, count=2)] == ["b1"]


def test_none_chooses_none():
    assert choose_exemplars("Who wrote Emma?", "none", hops=1, count=1) == []
