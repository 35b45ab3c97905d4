"""Windows and replies of the listwise reranker."""

from __future__ import annotations

import pytest

from inference.structured import BadOutput, parse_output
from nodes.kit.model import output_schema
from nodes.kit.reranking import Ranking, _places, windows


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, []),
        (1, []),
        (2, [(0, 2)]),
        (20, [(0, 20)]),
        (21, [(1, 21), (0, 11)]),
        (40, [(20, 40), (10, 30), (0, 20)]),
        (45, [(25, 45), (15, 35), (5, 25), (0, 15)]),
    ],
)
def test_windows_go_from_the_last_candidates_to_the_first(count, expected):
    assert list(windows(count)) == expected


def test_every_candidate_can_reach_the_top():
    """A perfect ranker of windows brings the most relevant half a window to the top, wherever they were."""
    for count in range(2, 90):
        relevant = set(range(count - 10, count))
        order = list(range(count))
        for start, end in windows(count):
            order[start:end] = sorted(order[start:end], key=lambda i: (i not in relevant, i))
        assert {i for i in order[:10] if i >= 0} == {i for i in relevant if i >= 0}


@pytest.mark.parametrize(
    ("ranking", "places", "problem"),
    [
        ([3, 1, 2], [2, 0, 1], ""),
        ([3], [2, 0, 1], "2 passages not ranked"),
        ([2, 2, 9, 0, 9], [1, 0, 2], "2 unknown numbers, 2 passages not ranked"),
        ([], [0, 1, 2], ""),
    ],
)
def test_what_a_reply_leaves_out_keeps_its_order_after_what_it_names(ranking, places, problem):
    assert _places(ranking, 3) == (places, problem)


@pytest.mark.parametrize(
    ("reply", "ranking"),
    [
        ('{"ranking": [2, 1]}', [2, 1]),
        ('{"ranking": ["[2]", "1", " 3 "]}', [2, 1, 3]),
        ('{"ranking": [2, null, true, {"a": 1}, "x", 1.5, "1"]}', [2, 1]),
    ],
)
def test_numbers_are_read_as_models_write_them(reply, ranking):
    assert parse_output(reply, Ranking).ranking == ranking


@pytest.mark.parametrize("reply", ['{"ranking": []}', '{"ranking": ["a"]}', '{"ranking": "2 > 1"}', "[2] > [1]"])
def test_a_reply_without_a_number_is_no_ranking(reply):
    with pytest.raises(BadOutput):
        parse_output(reply, Ranking)


def test_the_schema_bounds_what_a_server_generates():
    rows = output_schema(Ranking)["properties"]["ranking"]
    assert rows == {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 20}, "maxItems": 20}
