"""A folder of the user's that hides one of hopgraph's packages is named, instead of failing somewhere deep."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hopgraph.installation import ROOMS


@pytest.mark.parametrize("room", ROOMS)
def test_a_hidden_package_is_said_plainly(tmp_path, room):
    (tmp_path / room).mkdir()
    (tmp_path / room / "__init__.py").write_text("")
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}]; import hopgraph"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"'{room}' comes from {tmp_path / room}" in done.stderr
    assert "Rename that folder" in done.stderr
