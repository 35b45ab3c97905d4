from __future__ import annotations

from pathlib import Path

import pytest

from tests.training.revelator.conftest import data

__all__ = ["data"]


@pytest.fixture
def examples(data: Path, tmp_path: Path) -> Path:
    """Chats of the Revelator's skills."""
    from training.revelator.build import main

    main(["--data", str(data), "--to", str(tmp_path / "built")])
    return tmp_path / "built/train.jsonl"
