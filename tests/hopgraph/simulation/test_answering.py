from __future__ import annotations

import pytest

from hopgraph.simulation.answering import comparison, earlier, reasons
from hopgraph.simulation.case import Case, Fact


def films(*values: str, answer: str) -> Case:
    """Two films, each with a fact."""
    facts = tuple(
        Fact(number, f"When did {name} come out?", name, "release date", (), value, ())
        for number, (name, value) in enumerate(zip(("Alpha (film)", "Beta"), values, strict=True), start=1)
    )
    return Case("Which film came out later?", (answer,), facts)


@pytest.mark.parametrize(
    ("one", "other", "how", "side"),
    [
        ("3 May 1942", "June 7, 1950", "1942 is before 1950. The earlier is Alpha, the later is Beta.", "later"),
        ("2001", "June 7, 1950", "1950 is before 2001. The earlier is Beta, the later is Alpha.", "earlier"),
        (
            *("8 June 1950", "June 7, 1950"),
            *("June 7, 1950 is before 8 June 1950. The earlier is Beta, the later is Alpha.", "earlier"),
        ),
    ],
)
def test_dates_are_compared_and_then_it_is_said_which_the_question_asks_for(one, other, how, side):
    case = films(one, other, answer="Beta")
    asks = f"The question asks for the {side}. The {side} is Beta."
    assert comparison(case, {1: one, 2: other}) == f"Alpha: {one}. Beta: {other}. {how} {asks}"
    neither = films(one, other, answer="Gamma")
    assert comparison(neither, {1: one, 2: other}) == f"Alpha: {one}. Beta: {other}. {how}"


@pytest.mark.parametrize(("answer", "end"), [("yes", "They are the same."), ("no", "They are not the same.")])
def test_a_yes_or_no_follows_from_whether_the_values_are_the_same(answer, end):
    case = films("Peru", "Chad", answer=answer)
    assert comparison(case, {1: "Peru", 2: "Chad"}) == f"Alpha: Peru. Beta: Chad. {end}"


def test_what_is_no_date_is_only_stated():
    case = films("12 songs", "9 songs", answer="Alpha")
    assert comparison(case, {1: "12 songs", 2: "9 songs"}) == "Alpha: 12 songs. Beta: 9 songs."


def test_the_reason_is_the_last_fact_where_nothing_is_compared():
    facts = (
        Fact(1, "Who directed Alpha?", "Alpha", "director", (), "Ann Lee", ()),
        Fact(2, "Where was #1 born?", "#1", "place of birth", (1,), "Paris", ()),
    )
    case = Case("Where was the director of Alpha born?", ("Paris",), facts)
    assert reasons(case, {1: "Ann Lee", 2: "Paris"}) == "The place of birth of Ann Lee is Paris."
    assert reasons(case, {1: "Ann Lee"}) == "The place of birth of Ann Lee is not known."
    assert reasons(case, {}) == "The director of Alpha is not known."


@pytest.mark.parametrize(
    ("one", "other", "first"),
    [
        ("3 May 1942", "4 May 1942", 0),
        ("4 May 1942", "May 3, 1942", 1),
        ("1950", "May 3, 1942", 1),
        ("May 1942", "3 May 1942", None),
        ("1942", "3 May 1942", None),
        ("1942", "1942", None),
        ("1942", "long ago", None),
    ],
)
def test_the_earlier_of_two_dates_is_told_if_it_can_be(one, other, first):
    assert earlier(one, other) == first
