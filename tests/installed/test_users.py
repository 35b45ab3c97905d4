"""Another user of the machine sets Hopgraph up in a private folder of their own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.installed.places import Place, copy_tree, give, make_place, private_folder, python_for
from tests.installed.tries import try_out

pytestmark = pytest.mark.installed


@pytest.fixture
def other() -> Iterator[Place]:
    """A clone in a folder of another user's, before any command."""
    if os.geteuid() != 0:
        pytest.skip("only root may become another user; the other tests run as one who is not root")
    folder = private_folder("nobody")
    try:
        place = make_place(folder, "nobody")
        copy_tree(place.folder)
        give(place)
        yield place
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_another_user_sets_up_asks_and_tests(other):
    python = python_for(other)
    if python is None:
        pytest.skip("no Python 3.11 that another user can run")
    other.run("make", "setup", f"PYTHON={python}")
    try_out(other)
    other.run("make", "dev", f"PYTHON={python}")
    other.run("python", "-m", "pytest", "-q", "tests/stores/test_checkpoints_postgres.py", "tests/hopgraph/test_cli.py")
