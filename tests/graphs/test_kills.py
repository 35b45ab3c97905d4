"""Random kills over all methods: nothing lost, nothing repeated but what was in flight, the same answers."""

from __future__ import annotations

import pytest

from tests.kills import MOST_KILLS, kill_at_random
from tests.postgres import running_postgres


@pytest.mark.slow
def test_whatever_moment_a_process_is_killed_at_another_goes_on_from_there(home, tmp_path):
    log = tmp_path / "log.jsonl"
    kill_at_random(15, log=log)
    report = kill_at_random(20, log=log)  # continues
    assert report.problems == []
    assert 20 <= report.kills < 20 + MOST_KILLS
    assert report.by_command
    assert len(log.read_text().splitlines()) == report.rounds
    # The kills were no empty exercise.
    assert report.interrupted >= 60
    assert report.in_flight >= 20
    assert report.repeated <= report.in_flight


@pytest.mark.slow
def test_the_same_with_checkpoints_in_postgres(home):
    pytest.importorskip("psycopg")
    with running_postgres() as url:
        report = kill_at_random(10, postgres=url)
    assert report.problems == []
    assert report.interrupted >= 20
    assert report.repeated <= report.in_flight
