"""Replicas on one Postgres."""

from __future__ import annotations

import pytest

from hopgraph.methods import METHODS
from tests.postgres import running_postgres
from tests.replicas import kill_a_replica
from tests.small import build_small

pytest.importorskip("langgraph.checkpoint.postgres")


@pytest.mark.slow
def test_threads_of_a_killed_replica_go_on_at_the_other_one_and_no_committed_call_is_made_again(home):
    build_small()
    with running_postgres() as url:
        outcome = kill_a_replica(home, url, len(METHODS))
    assert outcome.problems == []
    assert outcome.cut > 0
    assert outcome.repeated <= outcome.in_flight
