"""Folders of the user's with the name of one of hopgraph's packages: harmless, or named in a clear error."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hopgraph.installation import PACKAGES

WHERE = "import hopgraph, {0}; print(hopgraph.__version__, {0}.__file__)"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_hidden_package_is_said_plainly(tmp_path, package):
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text("")
    done = python(tmp_path, "import hopgraph")
    assert done.returncode == 1
    assert f"'{package}' comes from {tmp_path / package}" in done.stderr
    assert "Rename that folder" in done.stderr


@pytest.mark.parametrize("name", ["hopgraph", *PACKAGES])
def test_a_folder_that_is_no_package_hides_nothing(tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "selector.md").write_text("Mine.")
    done = python(tmp_path, WHERE.format(name))
    assert done.returncode == 0, done.stderr
    assert not done.stdout.split()[1].startswith(str(tmp_path))


def test_a_script_beside_a_folder_of_prompts_imports_ours(tmp_path):
    (tmp_path / "prompts" / "prism").mkdir(parents=True)
    (tmp_path / "script.py").write_text("from hopgraph import load\nprint(load('prism').name)")
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def python(folder, code):
    """Python with `folder` as the current one, and so first on its search path."""
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
