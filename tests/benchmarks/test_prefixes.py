"""The prefix benchmark, on one question."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.hopgraph.evaluation.conftest import LINES, NODES, hopgraph, questions, row  # noqa: F401  (fixtures)
from tests.scripted import Completion, Raw, completion

ROOT = Path(__file__).parents[2]


def test_the_prompts_of_a_run_are_put_again_and_their_cached_tokens_summed_up(hopgraph, questions, model, tmp_path):  # noqa: F811
    def reply(request):
        if request.id:
            return LINES[request.node]
        body = completion(request, Completion("x"))
        body["usage"] |= {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 25}}
        return Raw(body=json.dumps(body))

    server = model(reply)
    words = ("-m", "prism", "-q", questions([row(1)]), "--contexts", "--out", tmp_path / "run")
    assert hopgraph("eval", *words)[0] == 0
    words = [sys.executable, "benchmarks/prefixes.py", str(tmp_path / "run"), "--url", server.url]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["prism", "selector", "2", "200", "50", "25.0%"] in lines
    assert ["prism", "all", "6", "600", "150", "25.0%"] in lines
    asked = [request.prompt for request in server.requests if request.id]
    again = [request for request in server.requests if not request.id]
    assert [request.prompt for request in again] == asked
    assert len(asked) == len(NODES)
    assert {request.body["max_tokens"] for request in again} == {1}
    assert len({request.body["cache_salt"] for request in again}) == 1
