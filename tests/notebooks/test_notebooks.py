"""The notebooks run from top to bottom, on the embedded model."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
HOME = os.environ.get("HOPGRAPH_HOME")
"""Before the tests' own settings: what an earlier one fetched and indexed is used again."""


def test_there_are_notebooks():
    assert {path.stem for path in NOTEBOOKS} >= {"prunerag", "parrag", "hanrag", "compactrag", "prism", "compare"}


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_from_top_to_bottom(path, monkeypatch, tmp_path):
    monkeypatch.setenv("HOPGRAPH_HOME", HOME or str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(path, as_version=4)
    place = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=1200, kernel_name="python3", resources=place).execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output["output_type"] != "error"
            assert "Traceback" not in output.get("text", "")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_kept_with_its_outputs_and_without_paths_of_the_machine_it_ran_on(path):
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in code)
    assert all(len(cell["outputs"]) for cell in code)
    text = path.read_text(encoding="utf-8")
    assert str(Path.home()) + "/" not in text
    assert "/tmp/" not in text
