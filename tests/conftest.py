"""Fixtures shared by all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from inference.settings import get_settings


@pytest.fixture(autouse=True)
def _fresh_settings(monkeypatch: pytest.MonkeyPatch):
    """No HOPGRAPH_* variable of the person running the tests reaches them; each test reads the environment anew."""
    import os

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
