"""Connecting to a Ray cluster."""

from __future__ import annotations

import signal
import sys
from types import SimpleNamespace

import pytest

from hopgraph.cli.stopping import stoppable
from hopgraph.cluster.connection import connected
from hopgraph.signals import Stopped


def test_sigterm_stops_a_command_on_a_cluster_as_it_does_without_one(monkeypatch, capsys):
    def init(**_):
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(number))  # as Ray does
        return SimpleNamespace(dashboard_url="")

    ray = SimpleNamespace(init=init, cluster_resources=lambda: {"CPU": 1.0}, nodes=lambda: [], shutdown=lambda: None)
    monkeypatch.setitem(sys.modules, "ray", ray)
    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"):
        monkeypatch.setenv(name, "0")  # `connected` sets them
    with pytest.raises(Stopped) as stopped, stoppable("run it again"), connected("local"):
        signal.raise_signal(signal.SIGTERM)
    assert stopped.value.exit_code == 143
    assert "hopgraph: stopped; run it again" in capsys.readouterr().err
