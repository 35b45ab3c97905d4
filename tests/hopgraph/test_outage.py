"""A real Postgres that is stopped under `ask`, `eval`, `serve` and `mcp`, and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from inference.settings import get_settings
from tests.hopgraph.test_serve import address, chat, serve
from tests.kills import committed_in
from tests.postgres import Postgres, postgres_server
from tests.replies import proper_text
from tests.scripted import Completion, Request, ScriptedModel
from tests.small import INDEX, QUESTION, build_small

pytest.importorskip("psycopg")
pytest.importorskip("langgraph.checkpoint.postgres")

AWAY = float(os.environ.get("HOPGRAPH_TEST_OUTAGE", "6"))
"""Seconds of the outage that is waited out."""
START = "from hopgraph.cli import main; main()"


class Mcp:
    """A client of `hopgraph mcp` that accepts nothing but the protocol on its standard output."""

    def __init__(self, errors: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", START, "mcp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors.open("w"),
            text=True,
        )
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        self.call("initialize", about)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result of a request."""
        assert self._process.stdout
        self._send({"jsonrpc": "2.0", "id": method, "method": method, "params": params})
        for line in self._process.stdout:
            message = json.loads(line)
            assert message["jsonrpc"] == "2.0"
            if message.get("id") == method:
                return dict(message["result"])
        raise AssertionError("the server has ended")

    def ask(self) -> dict[str, Any]:
        """The result of the tool `ask`."""
        return self.call("tools/call", {"name": "ask", "arguments": {"question": QUESTION}})

    def close(self) -> None:
        """End the server."""
        self._process.communicate(timeout=30)


@pytest.fixture
def server(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Postgres]:
    build_small()
    with postgres_server() as server:
        monkeypatch.setenv("HOPGRAPH_HOME", str(home))
        monkeypatch.setenv("HOPGRAPH_CHECKPOINTS", server.url)
        get_settings.cache_clear()
        yield server
    get_settings.cache_clear()


class Held(ScriptedModel):
    """Replies once to each run, and on when it may: so that no run ends before Postgres is stopped."""

    def __init__(self) -> None:
        super().__init__(self._reply)
        self.may = threading.Event()

    def _reply(self, request: Request) -> Completion:
        run = request.id.partition(".")[0]
        if sum(one.id.partition(".")[0] == run for one in list(self.requests)) > 1:
            self.may.wait(240)
        return Completion(proper_text(request, 3), delay=0.5)


@pytest.fixture
def scripted(server: Postgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    model = Held()
    with model.running():
        monkeypatch.setenv("HOPGRAPH_LLM_URL", model.url)
        get_settings.cache_clear()
        yield model


def command(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", START, *map(str, words)], capture_output=True, text=True, timeout=AWAY + 240
    )


def evaluation(tmp_path: Path) -> list[object]:
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps({"question": f"{QUESTION} ({n})", "answers": ["x"]}) + "\n" for n in range(3)))
    words = ["eval", "--method", "prism", "--questions", path, "--index", INDEX, "--out", tmp_path / "run"]
    return [*words, "--json"]


def until_begun(scripted: ScriptedModel, runs: int, calls: int) -> None:
    """Wait until each of so many runs has made so many calls."""
    deadline = time.monotonic() + 240
    while True:
        counts = Counter(request.id.partition(".")[0] for request in list(scripted.requests))
        if len(counts) >= runs and min(counts.values()) >= calls:
            return
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
def test_an_outage_is_waited_out_and_no_call_is_repeated(server: Postgres, scripted: Held, tmp_path: Path) -> None:
    replica, mcp = serve("--port", 0, "--index", INDEX), Mcp(tmp_path / "mcp.log")
    try:
        at = address(replica)
        with ThreadPoolExecutor() as pool:
            asked = pool.submit(command, "ask", QUESTION, "--index", INDEX, "--json")
            evaluated = pool.submit(command, *evaluation(tmp_path))
            until_begun(scripted, runs=4, calls=2)
            server.stop()
            scripted.may.set()
            chatted = pool.submit(chat, at, "t-1")
            called = pool.submit(mcp.ask)
            time.sleep(AWAY)
            server.start()
        ask, run = asked.result(), evaluated.result()
        chats, tool = chatted.result(), called.result()
    finally:
        replica.send_signal(signal.SIGTERM)
        _, said = replica.communicate(timeout=40)
        mcp.close()
    assert ask.returncode == 0, ask.stderr
    assert run.returncode == 0, run.stderr
    assert chats.status_code == 200, chats.text
    assert not tool.get("isError"), tool
    assert json.loads(ask.stdout)["status"] in ("answered", "unanswerable")
    assert len((tmp_path / "run" / "results.jsonl").read_text().splitlines()) == 3
    counts = Counter(request.id for request in scripted.requests)
    assert set(counts.values()) == {1}
    logs = {"ask": ask.stderr, "eval": run.stderr, "serve": said, "mcp": (tmp_path / "mcp.log").read_text()}
    for name, log in logs.items():
        assert log.count("waiting for it, 120 s at most") == 1, (name, log)
        assert log.count("reachable again") == 1, (name, log)
        assert "Traceback" not in log, (name, log)
        assert "error connecting in" not in log, (name, log)
        assert "s3cret" not in log


@pytest.mark.slow
def test_after_the_patience_the_error_is_clear_and_the_same_runs_go_on_later(
    server: Postgres, scripted: Held, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOPGRAPH_CHECKPOINTS_PATIENCE", "1")
    replica, mcp = serve("--port", 0, "--index", INDEX), Mcp(tmp_path / "mcp.log")
    try:
        at = address(replica)
        words = ["ask", QUESTION, "--index", INDEX, "--thread", "mine", "--json"]
        with ThreadPoolExecutor() as pool:
            runs = [pool.submit(command, *words), pool.submit(command, *evaluation(tmp_path))]
            until_begun(scripted, runs=4, calls=1)
            chatted = pool.submit(chat, at, "t-1")
            until_begun(scripted, runs=5, calls=2)
            server.stop()
            scripted.may.set()
            ask, run = (one.result() for one in runs)
            refused = chatted.result()
        tool = mcp.ask()
        server.start()
        kept = committed_in(server.url)
        assert [one.returncode for one in (ask, run)] == [3, 3], (ask.stderr, run.stderr)
        for one in (ask, run):
            error = json.loads(one.stdout)["error"]
            assert error["kind"] == "store_unavailable"
            assert "(waited 1 s)" in error["message"]
            assert "Traceback" not in one.stderr
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "store_unavailable"
        assert refused.headers["x-hopgraph-thread"] == "t-1"
        assert tool["isError"]
        assert "(waited 1 s)" in tool["content"][0]["text"]
        again = [command(*words), command("eval", "--resume", tmp_path / "run", "--json")]
        assert [one.returncode for one in again] == [0, 0], again
        resumed = chat(at, "t-1").json()["hopgraph"]
    finally:
        replica.send_signal(signal.SIGTERM)
        replica.communicate(timeout=40)
        mcp.close()
    counts = Counter(request.id for request in scripted.requests)
    assert len(kept) >= 5
    assert {counts[key] for key in kept} == {1}
    asked = Counter(key.partition(".")[0] for key in counts)
    lines = map(json.loads, (tmp_path / "run" / "results.jsonl").read_text().splitlines())
    costs = {line["thread"]: line["cost"]["calls"] for line in (*lines, json.loads(again[0].stdout), resumed)}
    assert len(costs) == 5
    assert costs == {thread: asked[thread] for thread in costs}
