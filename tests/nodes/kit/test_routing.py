"""By which settings a graph's conditional edges decide."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nodes.kit import routing
from nodes.prism.context import PrismContext


@routing.with_context(PrismContext)
def rounds(state, context):
    return context.max_iterations


@pytest.fixture
def running(monkeypatch):
    def start(runtime):
        monkeypatch.setattr(routing, "get_runtime", lambda cls: runtime)

    return start


def test_in_a_run_its_own_settings_count(running):
    running(SimpleNamespace(context=PrismContext(max_iterations=7)))
    assert rounds({"settings": {"max_iterations": 5}}) == 7


@pytest.mark.parametrize("runtime", [None, SimpleNamespace(context=None), SimpleNamespace(context={})])
def test_where_a_person_edits_a_state_the_settings_in_it_count(running, runtime):
    running(runtime)
    assert rounds({"settings": {"max_iterations": 5}}) == 5
    assert rounds({"settings": None}) == rounds({}) == 3
