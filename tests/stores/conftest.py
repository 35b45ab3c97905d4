"""An encoder that needs no model, in the place of the real one."""

from __future__ import annotations

import pytest

from tests.stores.hashing_encoder import HashingEncoder


@pytest.fixture
def encoder(home, monkeypatch: pytest.MonkeyPatch) -> HashingEncoder:
    """The encoder that builds and searches use, in an empty HOPGRAPH_HOME."""
    made = HashingEncoder()
    for module in ("build", "index"):
        monkeypatch.setattr(f"stores.{module}.get_encoder", lambda: made)
    return made
