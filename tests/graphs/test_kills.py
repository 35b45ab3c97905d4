"""Random kills over all methods: nothing lost, nothing repeated but what was in flight, the same answers."""

from __future__ import annotations

import pytest

from tests.kills import kill_at_random


@pytest.mark.slow
def test_whatever_moment_a_process_is_killed_at_another_goes_on_from_there(home):
    report = kill_at_random(20)
    assert report.problems == []
    assert report.kills == 20
    # The kills were no empty exercise.
    assert report.interrupted >= 60
    assert report.in_flight >= 20
    assert report.repeated <= report.in_flight
