"""Filters: what they mean, by an evaluator of the test's own, and what is wrong with those that mean nothing."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.errors import InputError
from stores.passages import Passage
from stores.records import Records, kind_of
from stores.where import All, Comparison, Contains, Either, Missing, Not, fields_of, parse_where

ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
FIELDS = ["year", "author", "free text", "rated"]
VALUES = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([0.5, 2.0, 2**53 + 1, -(2**62)]),
    st.booleans(),
    st.sampled_from(["", "a", "ab", "É", "2"]),
)
ROWS = st.lists(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4), min_size=1, max_size=8)
ORDERED = VALUES.filter(lambda value: not isinstance(value, bool))
LEAVES = st.one_of(
    st.builds(Comparison, st.sampled_from(FIELDS), st.sampled_from(["=", "!="]), VALUES),
    st.builds(Comparison, st.sampled_from(FIELDS), st.sampled_from(["<", "<=", ">", ">="]), ORDERED),
    st.builds(Contains, st.sampled_from(FIELDS), st.sampled_from(["", "a", "É"])),
    st.builds(Missing, st.sampled_from(FIELDS)),
)
FILTERS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: All(tuple(parts))),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: Either(tuple(parts))),
    ),
    max_leaves=6,
)


def holds(where, row):
    match where:
        case Not(inner):
            return not holds(inner, row)
        case All(parts):
            return all(holds(part, row) for part in parts)
        case Either(parts):
            return any(holds(part, row) for part in parts)
        case Missing(field):
            return field not in row
        case Contains(field, text):
            return isinstance(row.get(field), str) and text in row[field]
        case Comparison(field, sign, value):
            if field not in row:
                return False
            same_type = kind_of(row[field]) == kind_of(value)
            if sign in ("=", "!="):
                return (same_type and row[field] == value) == (sign == "=")
            return same_type and ORDER[sign](row[field], value)


def written(where):
    """A filter as people write it."""

    def value(of):
        if isinstance(of, str):
            return '"' + of.replace("\\", "\\\\").replace('"', '\\"') + '"'
        return str(of).lower() if isinstance(of, bool) else str(of)

    match where:
        case Not(Missing(field)):
            return f"`{field}` is not missing"
        case Not(inner):
            return f"not ({written(inner)})"
        case All(parts):
            return " AND ".join(f"({written(part)})" for part in parts)
        case Either(parts):
            return " or ".join(f"({written(part)})" for part in parts)
        case Missing(field):
            return f"`{field}` Is Missing"
        case Contains(field, text):
            return f"`{field}` contains {value(text)}"
        case Comparison(field, sign, other):
            return f"`{field}`{sign}{value(other)}"


@given(ROWS, FILTERS)
@settings(max_examples=150, deadline=None)
def test_a_filter_holds_for_the_rows_that_it_describes(tmp_path_factory, rows, where):
    records = Records(tmp_path_factory.mktemp("records") / "passages.sqlite", writable=True)
    records.append(Passage(f"p{n}", "", "x", metadata=row) for n, row in enumerate(rows))
    assert records.holding(where).tolist() == [holds(where, row) for row in rows]
    assert records.holding(parse_where(written(where))).tolist() == [holds(where, row) for row in rows]
    assert [passage.metadata for passage in records.at(range(len(rows))).values()] == rows
    records.close()


def test_lists_names_and_precedence():
    assert parse_where("a = 1 or b = 2 and not c = 3") == Either(
        (Comparison("a", "=", 1), All((Comparison("b", "=", 2), Not(Comparison("c", "=", 3)))))
    )
    assert parse_where("year in (2020, 2021.5)") == Either(
        (Comparison("year", "=", 2020), Comparison("year", "=", 2021.5))
    )
    assert parse_where("`a b` not in ('x')") == All((Comparison("a b", "!=", "x"),))
    assert parse_where("größe.cm == -1e3") == Comparison("größe.cm", "=", -1000.0)
    assert parse_where(r"t = 'it\'s' AND t <> \"\\\"".replace(r"\"\\\"", r'"\\"')) == All(
        (Comparison("t", "=", "it's"), Comparison("t", "!=", "\\"))
    )
    assert parse_where(r't = "C:\docs\\a"') == Comparison("t", "=", r"C:\docs\a")
    assert parse_where("a < 1e30") == Comparison("a", "<", 1e30)
    assert fields_of(parse_where("a = 1 or not (b is missing and a contains 'x')")) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("", 1, "expected a field, found the end"),
        ("   ", 4, "expected a field, found the end"),
        ("year", 5, "after 'year', found the end"),
        ("year >= and", 9, "expected a value"),
        ("year = lee", 8, "a text in quotes, \"like this\"), found 'lee'"),
        ("(a = 1", 7, "expected `)` for the `(` at column 1"),
        ("a = 1)", 6, "expected `and`, `or` or the end"),
        ("a = 1 b = 2", 7, "expected `and`, `or` or the end"),
        ("a = 'x", 5, "the ' is not closed"),
        ("a = 1; drop table passages", 6, "unexpected '; drop tab'"),
        ("a in 1", 6, "expected `(` and values"),
        ("a in ()", 7, "expected a value"),
        ("a in (1 2)", 9, "expected `,` or `)`"),
        ("a is 1", 6, "expected `missing`"),
        ("a not 1", 7, "after 'a'"),
        ("a contains 1", 12, "expected a text in quotes"),
        ("rated < true", 7, "true and false have no order"),
        ("a = 2x", 5, "unexpected"),
        ("a = 9223372036854775808", 5, "the number is too large"),
        ("a = 1e999", 5, "the number is too large"),
        ("not = 1", 5, "expected a field"),
        ("__import__('os')", 11, "after '__import__'"),
    ],
)
def test_errors_point_at_the_column(text, column, problem):
    with pytest.raises(InputError) as caught:
        parse_where(text)
    assert caught.value.message.startswith(f"where, column {column}: ")
    assert problem in caught.value.message


@pytest.mark.parametrize("text", ["(" * 60 + "a = 1" + ")" * 60, "not " * 60 + "a = 1", "a = '" + "x" * 10_000 + "'"])
def test_deep_and_long_filters_are_refused(text):
    with pytest.raises(InputError, match=r"^where.*(more than 50 levels|at most 10,000 are allowed)"):
        parse_where(text)


@given(st.text(max_size=40))
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_filter_or_an_error(text):
    problem = ""
    try:
        parse_where(text)
    except InputError as error:
        problem = error.message
    assert not problem or problem.startswith("where, column")
