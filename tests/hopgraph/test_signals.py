"""Signals to a command as a shell starts it: one plain line at any moment, and no answered call is repeated."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter

import pytest

from tests.hopgraph.evaluation.conftest import CONTEXTS, LINES, questions, row  # noqa: F401
from tests.scripted import Completion

AT_IMPORT = """
import os, runpy, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # where the tests run in the background it is ignored
count, moment = 0, int(sys.argv[1])
sys.argv[:2] = ["hopgraph"]

def hook(event, _):
    global count
    if event == "import":
        count += 1
        if count == moment:
            os.kill(os.getpid(), signal.SIGINT)

sys.addaudithook(hook)
runpy.run_module("hopgraph", run_name="__main__")
"""
"""`python -m hopgraph`, which gets a ctrl-C at its so many-th import."""

HOPS = {
    "router": {"route": "complex"},
    "refiner": {"question": "Who directed X?"},
    "relevance_discriminator": {"relevant": True},
    "generator": {"answer": "Ann Lee"},
    "ending_discriminator": {"sufficient": True},
    "synthesizer": {"thought": "t", "answer": "Paris"},
}


@pytest.fixture
def contexts(tmp_path):
    path = tmp_path / "contexts.jsonl"
    path.write_text("\n".join(map(json.dumps, CONTEXTS)))
    return str(path)


def started(*words: object, code: tuple[str, ...] = ("-m", "hopgraph")) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *code, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in err
    return process.returncode, out, err


def answering(lines, at: str, delay: float = 1.0):
    """A script, and an event that is set when node `at` asks for the first time; its reply comes late."""
    asked = threading.Event()

    def script(request):
        if request.node != at or asked.is_set():
            return lines[request.node]
        asked.set()
        return Completion(json.dumps(lines[request.node]), delay=delay)

    return script, asked


@pytest.mark.parametrize(
    "moment",
    [100, 300, 700, *(pytest.param(moment, marks=pytest.mark.slow) for moment in range(120, 2400, 120))],
)
def test_ctrl_c_during_imports_is_one_plain_line(model, contexts, moment):
    model(lambda request: LINES[request.node])
    process = started(moment, "ask", "Where?", "--contexts", contexts, "--json", code=("-c", AT_IMPORT))
    code, out, err = ended(process)
    if moment > 1500 and code == 0:
        return  # it had ended by then
    assert code == 130
    error = json.loads(out)["error"]
    assert error | {"hint": ""} == {"kind": "stopped", "message": "stopped by ctrl-C", "hint": "", "exit_code": 130}
    (line,) = [line for line in err.splitlines() if not line.startswith("thread ")]
    assert line == f"hopgraph: stopped; {error['hint']}" if error["hint"] else "hopgraph: stopped"


@pytest.mark.parametrize(
    ("method", "lines", "at"),
    [("prism", LINES, "selector"), ("hanrag", HOPS, "relevance_discriminator"), ("prism", LINES, "analyzer")],
)
def test_after_sigterm_calls_in_flight_end_none_begins_and_none_is_repeated(model, contexts, method, lines, at):
    script, asked = answering(lines, at)
    server = model(script)
    process = started("ask", "Where?", "-m", method, "--contexts", contexts, "--thread", "t", "--json")
    assert asked.wait(60)
    process.send_signal(signal.SIGTERM)
    code, out, err = ended(process)
    assert code == 143
    how_to_resume = "resume with `hopgraph resume t`"
    assert f"hopgraph: stopped; {how_to_resume}" in err
    error = {"kind": "stopped", "message": "stopped by SIGTERM", "hint": how_to_resume, "exit_code": 143}
    assert json.loads(out) == {"error": error}
    assert all(request.finished for request in server.requests)
    before = len(server.requests)
    code, out, _ = ended(started("resume", "t", "--json"))
    assert (code, json.loads(out)["status"]) == (0, "answered")
    assert len(server.requests) > before
    assert max(Counter(request.id for request in server.requests).values()) == 1


def test_a_second_sigterm_stops_at_once(model, contexts):
    script, asked = answering(LINES, "selector", delay=30.0)
    model(script)
    process = started("ask", "Where?", "--contexts", contexts, "--thread", "t")
    assert asked.wait(60)
    process.send_signal(signal.SIGTERM)
    while "in flight" not in (line := process.stderr.readline()):
        assert line
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 143
    assert err == "hopgraph: stopped\n"


def test_sigterm_drains_an_evaluation_which_is_then_resumed(model, questions, tmp_path, monkeypatch):  # noqa: F811
    script, asked = answering(LINES, "selector")
    server = model(script)
    path = questions([row(number) for number in range(1, 7)])
    run = tmp_path / "run"
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "2")
    process = started("eval", "-m", "prism", "-q", path, "--contexts", "--out", run, "--json")
    assert asked.wait(60)
    process.send_signal(signal.SIGTERM)
    code, out, err = ended(process)
    assert code == 143
    assert json.loads(out)["error"]["hint"] == f"resume with `hopgraph eval --resume {run}`"
    assert "resume with" in err
    assert all(request.finished for request in server.requests)
    code, out, _ = ended(started("eval", "--resume", run, "--json"))
    assert code == 0
    assert json.loads(out)["run"]["questions"] == 6
    assert len((run / "results.jsonl").read_text().splitlines()) == 6
    assert max(Counter(request.id for request in server.requests).values()) == 1


def test_sigterm_to_indexing_says_how_to_resume(home, tmp_path):
    path = tmp_path / "many.jsonl"
    path.write_text(
        "".join(json.dumps({"title": f"T{n}", "text": f"Text number {n}. " * 40}) + "\n" for n in range(20))
    )
    process = started("index", path, "--name", "many", "--json", code=("-c", SLOWED))
    assert process.stdout.readline() == "encoding\n"
    process.send_signal(signal.SIGTERM)
    code, out, err = ended(process)
    assert code == 143
    assert "hopgraph: stopped; run the same command again to resume" in err
    assert json.loads(out)["error"]["exit_code"] == 143


SLOWED = """
import sys, threading
from inference.encoders.configured import get_encoder
encoder = type(get_encoder())
def slow(self, texts):
    print("encoding", flush=True)
    threading.Event().wait(60)
encoder.encode_passages = slow
from hopgraph.__main__ import main
main()
"""
"""The command with an encoder that never ends."""
