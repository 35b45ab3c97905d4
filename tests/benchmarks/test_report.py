"""The report benchmark, on a handful of questions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.hopgraph.evaluation.conftest import LINES, hopgraph, questions, row  # noqa: F401  (fixtures)

ROOT = Path(__file__).parents[2]


def test_a_run_is_multiplied_and_reported(hopgraph, questions, model, tmp_path):  # noqa: F811
    model(lambda request: LINES[request.node])
    words = ("-m", "prism", "-q", questions([row(1), row(2)]), "--contexts", "--out", tmp_path / "run")
    assert hopgraph("eval", *words)[0] == 0
    words = [sys.executable, "benchmarks/report.py", str(tmp_path / "run"), "--questions", "501"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)
    assert "501 questions, 501 results" in done.stdout, done.stderr
    assert "page: " in done.stdout
    assert done.returncode in (0, 1)  # 1: it took more than a minute
