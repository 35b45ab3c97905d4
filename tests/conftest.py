"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inference.settings import get_settings
from nodes.kit import deadlines
from tests.scripted import Script, ScriptedModel


@pytest.fixture(autouse=True)
def _fresh_settings(monkeypatch: pytest.MonkeyPatch):
    """No HOPGRAPH_* variable of the person running the tests reaches them; each test reads the environment anew."""
    for name in list(os.environ):
        if name.startswith("HOPGRAPH_"):
            monkeypatch.delenv(name)
    get_settings.cache_clear()
    yield
    get_settings.cache_clear()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty HOPGRAPH_HOME."""
    folder = tmp_path / "home"
    monkeypatch.setenv("HOPGRAPH_HOME", str(folder))
    get_settings.cache_clear()
    return folder


@pytest.fixture
def model(home: Path, monkeypatch: pytest.MonkeyPatch):
    """Starts scripted models; the last one started is the endpoint that the environment names."""
    with ExitStack() as stack:

        def start(script: Script, **options: Any) -> ScriptedModel:
            server = stack.enter_context(ScriptedModel(script, **options).running())
            monkeypatch.setenv("HOPGRAPH_LLM_URL", server.url)
            get_settings.cache_clear()
            return server

        yield start


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch):
    """Moves the time that deadlines are counted by."""
    ahead = [0.0]
    monkeypatch.setattr(
        deadlines, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + ahead[0], time=time.time)
    )

    def move(seconds: float) -> None:
        ahead[0] += seconds

    return move
