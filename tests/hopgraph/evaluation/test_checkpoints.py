"""`hopgraph eval` with its checkpoints in one Postgres: resumed elsewhere, traced, merged, deleted."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from inference.settings import get_settings
from stores.checkpoints import kept_threads, open_checkpoints
from tests.hopgraph.evaluation.conftest import LINES, NODES, comparable, results, row
from tests.kills import committed_in
from tests.postgres import running_postgres
from tests.scripted import Completion

pytest.importorskip("psycopg")
pytest.importorskip("langgraph.checkpoint.postgres")


def play(request):
    return LINES[request.node]


@pytest.fixture(scope="module")
def url():
    with running_postgres() as url:
        yield url


@pytest.fixture
def postgres(url, home, monkeypatch):
    """A database of its own for each test, which HOPGRAPH_CHECKPOINTS names."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        count = connection.execute("SELECT COUNT(*) FROM pg_database").fetchone()[0]
        connection.execute(f"CREATE DATABASE d{count}")
    own = url.removesuffix("postgres") + f"d{count}"
    monkeypatch.setenv("HOPGRAPH_CHECKPOINTS", own)
    get_settings.cache_clear()
    return own


def threads(url: str) -> set[str]:
    async def read() -> set[str]:
        async with open_checkpoints(url) as saver:
            return {thread.id for thread in (await kept_threads(saver, 1000))[0]}

    return asyncio.run(read())


def text_of(folder: Path) -> str:
    return "".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())


def test_shards_share_a_database_and_are_resumed_traced_merged_and_deleted(
    hopgraph, model, questions, tmp_path, postgres, monkeypatch
):
    server = model(play)
    asked = questions([row(n) for n in range(4)])
    words = ("eval", "-m", "prism", "-q", asked, "--contexts")
    parts = [tmp_path / "part-1", tmp_path / "part-2", tmp_path / "again"]
    for part, shard in zip(parts, ("1/2", "2/2", "1/2"), strict=True):
        code, _, err = hopgraph(*words, "--shard", shard, "--out", part)
        assert code == 0, err
        assert not list(part.glob("checkpoints*"))
    assert len(server.requests) == len(NODES) * 6  # a run of the same name has its own threads
    found = {line["thread"] for part in parts for line in results(part).values()}
    assert len(found) == 6
    assert threads(postgres) == found
    assert "s3cret" not in text_of(tmp_path)

    lines = (parts[0] / "results.jsonl").read_text().splitlines(keepends=True)
    (parts[0] / "results.jsonl").write_text(lines[1])
    assert hopgraph("eval", "--resume", parts[0])[0] == 0  # from the checkpoints
    assert sorted((parts[0] / "results.jsonl").read_text().splitlines(keepends=True)) == sorted(lines)
    assert len(server.requests) == len(NODES) * 6

    whole = tmp_path / "whole"
    assert hopgraph("eval", "--merge", *parts[:2], "--out", whole)[0] == 0
    thread = results(whole)["prism", "q3"]["thread"]
    for folder in (whole, parts[1]):
        assert hopgraph("trace", thread, "--run", folder, "--out", tmp_path / "trace.html")[0] == 0
    assert "Ann Lee" in (tmp_path / "trace.html").read_text()

    with monkeypatch.context() as patch:
        patch.delenv("HOPGRAPH_CHECKPOINTS")
        get_settings.cache_clear()
        (parts[0] / "results.jsonl").write_text("")
        for command in (
            ("eval", "--resume", parts[0]),
            ("trace", thread, "--run", whole),
            ("rm", "run", parts[1], "--yes"),
        ):
            code, _, err = hopgraph(*command)
            assert code == 2
            assert "checkpoints are in postgresql://127.0.0.1:" in err
            assert "set HOPGRAPH_CHECKPOINTS to its URL" in err
    get_settings.cache_clear()
    assert hopgraph("eval", "--resume", parts[0])[0] == 0
    assert len(server.requests) == len(NODES) * 6
    assert hopgraph("rm", "run", parts[1], "--yes")[0] == 0
    assert not parts[1].exists()
    left = {line["thread"] for part in (parts[0], parts[2]) for line in results(part).values()}
    assert threads(postgres) == left


def test_another_database_is_refused_and_another_address_of_the_same_one_is_not(
    hopgraph, model, questions, tmp_path, url, postgres, monkeypatch
):
    server = model(play)
    run = tmp_path / "run"
    assert hopgraph("eval", "-m", "prism", "-q", questions([row(1), row(2)]), "--contexts", "--out", run)[0] == 0
    lines = (run / "results.jsonl").read_text().splitlines(keepends=True)
    (run / "results.jsonl").write_text(lines[0])
    monkeypatch.setenv("HOPGRAPH_CHECKPOINTS", url)
    get_settings.cache_clear()
    code, _, err = hopgraph("eval", "--resume", run)
    assert code == 2
    assert "no checkpoints of the run" in err
    assert "s3cret" not in err
    monkeypatch.setenv("HOPGRAPH_CHECKPOINTS", postgres.replace("127.0.0.1", "localhost"))
    get_settings.cache_clear()
    assert hopgraph("eval", "--resume", run)[0] == 0
    assert len(server.requests) == len(NODES) * 2


def test_a_run_with_its_checkpoints_in_a_file_keeps_them_there(
    hopgraph, model, questions, tmp_path, home, url, monkeypatch
):
    server = model(play)
    run = tmp_path / "run"
    assert hopgraph("eval", "-m", "prism", "-q", questions([row(1)]), "--contexts", "--out", run)[0] == 0
    (run / "results.jsonl").write_text("")
    monkeypatch.setenv("HOPGRAPH_CHECKPOINTS", url)
    get_settings.cache_clear()
    assert hopgraph("eval", "--resume", run)[0] == 0
    assert len(server.requests) == len(NODES)


@pytest.mark.slow
def test_a_killed_worker_s_shard_goes_on_on_another_machine(hopgraph, model, questions, tmp_path, postgres):
    server = model(lambda request: Completion(json.dumps(play(request)), delay=0.1))
    run, asked = tmp_path / "run", questions([row(n) for n in range(6)])
    words = ["eval", "-m", "prism", "-q", asked, "--contexts", "--shard", "1/2", "--out", str(run)]
    variables = {**os.environ, "HOPGRAPH_HOME": str(tmp_path / "elsewhere"), "HOPGRAPH_LLM_URL": server.url}
    command = [sys.executable, "-c", "from hopgraph.cli import main; main()", *words]
    process = subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 120
        while len(server.requests) < 8 and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        process.kill()
        _, err = process.communicate()
    assert len(server.requests) >= 8, err
    time.sleep(0.3)  # the server's replies to the dead process end
    kept = committed_in(postgres)
    assert kept
    code, _, err = hopgraph("eval", "--resume", run)
    assert code == 0, err
    counts = Counter(request.id for request in server.requests)
    assert len(counts) == len(NODES) * 3
    assert {counts[key] for key in kept} == {1}
    killed = results(run)
    server.script = play
    assert hopgraph(*words[:-1], tmp_path / "whole")[0] == 0
    whole = results(tmp_path / "whole")
    assert {key: comparable(line) for key, line in killed.items()} == {
        key: comparable(line) for key, line in whole.items()
    }
