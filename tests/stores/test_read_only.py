"""An index in a HOPGRAPH_HOME that can't be written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hopgraph.cli import run_app
from stores.build import build_index
from stores.collect import Located
from stores.passages import Passage
from tests.scripted import plausible

MOUNT = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'


@pytest.fixture
def locked(home, tmp_path, model):
    """Run the command where HOPGRAPH_HOME can't be written; gives exit code, stdout and stderr."""
    model(plausible)
    assert run_app(["ask", "Who directed X?", "--method", "no_retrieval", "--thread", "t"]) == 0
    build_index("x", [Located("here", Passage("lee", "Ann Lee", "Ann Lee was born in Paris."))])
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    before: list[str] = []
    if os.geteuid() == 0:  # modes don't bind root
        before = ["unshare", "--mount", "sh", "-c", MOUNT, str(home)]
        if shutil.which("unshare") is None or subprocess.run([*before, "true"], capture_output=True).returncode != 0:
            pytest.skip("nothing can be mounted here (unshare --mount)")

    def run(*words: str) -> tuple[int, str, str]:
        call = [*before, sys.executable, "-m", "hopgraph", *words]
        env = os.environ | {
            "HOPGRAPH_HOME": str(home),
            "TMPDIR": str(scratch),
            "HOPGRAPH_LLM_URL": "http://127.0.0.1:9",
        }
        done = subprocess.run(call, capture_output=True, text=True, env=env)
        assert "Traceback" not in done.stderr
        assert [path.name for path in scratch.iterdir() if path.name.startswith("hopgraph-")] == []
        return done.returncode, done.stdout, done.stderr

    paths = [home, *home.rglob("*")]
    modes = {path: path.stat().st_mode for path in paths}
    try:
        for path in paths:
            path.chmod(modes[path] & ~0o222)
        before_all = _files(home)
        yield run
        assert _files(home) == before_all
    finally:
        for path in paths:
            path.chmod(modes[path])


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


def test_an_index_that_cannot_be_written_is_searched_and_listed(locked):
    code, out, err = locked("search", "Where was Ann Lee born?", "--index", "x", "--mode", "dense")
    assert (code, err) == (0, "")
    assert "Ann Lee was born in Paris." in out
    code, out, err = locked("list", "indexes")
    assert (code, err) == (0, "")
    assert "complete" in out


def test_threads_of_a_home_that_cannot_be_written_are_listed_and_shown(locked, tmp_path):
    code, out, err = locked("list", "threads", "--json")
    assert (code, err) == (0, "")
    assert [(row["thread"], row["status"]) for row in json.loads(out)["threads"]] == [("t", "answered")]
    assert locked("trace", "t", "--out", str(tmp_path / "page.html"))[0] == 0
    assert "Who directed X?" in (tmp_path / "page.html").read_text()


def test_a_question_needs_a_place_for_checkpoints(locked):
    code, _, err = locked("ask", "Where was Ann Lee born?", "--index", "x")
    assert code != 0
    assert "set HOPGRAPH_CHECKPOINTS or HOPGRAPH_HOME to a place that can be written" in err


def test_an_index_needs_a_home_that_can_be_written(locked, home, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"title": "A", "text": "A."}')
    code, _, err = locked("index", str(tmp_path / "a.jsonl"), "--name", "y")
    assert code == 2
    assert f"can't write the index 'y': the folder {home} can't be written" in err
    assert "set HOPGRAPH_HOME to a folder that can be written" in err


def test_the_doctor_makes_nothing(locked, home, tmp_path):
    assert f"{home} can't be written" in locked("doctor", "--json")[1]
