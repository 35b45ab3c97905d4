"""`hopgraph list` and `hopgraph rm`."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import sqlite3
from contextlib import closing

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from hopgraph.cli import run_app
from inference.settings import get_settings
from stores.build import build_index
from stores.index import list_indexes
from stores.saver import LoopSaver
from stores.serializer import PackingSerializer
from tests.graphs import test_parrag
from tests.hopgraph.test_cli import answer, contexts  # noqa: F401
from tests.scripted import Raw
from tests.stores.conftest import encoder  # noqa: F401
from tests.stores.test_build import chroma_server, passages


@pytest.fixture
def hopgraph(capfd, home):
    """Runs a command line; gives exit code, stdout and stderr."""

    def run(*words: object):
        code = run_app([str(word) for word in words])
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run


def test_indexes_are_listed_and_deleted(hopgraph, encoder):  # noqa: F811
    assert hopgraph("list", "indexes") == (0, "No indexes.\n", "")
    build_index("one", passages(5))
    build_index("two", passages(7))
    _, out, _ = hopgraph("list", "indexes", "--json")
    rows = json.loads(out)["indexes"]
    assert {row["name"]: (row["state"], row["passages"]) for row in rows} == {
        "one": ("complete", 5),
        "two": ("complete", 7),
    }
    _, out, _ = hopgraph("list", "indexes", "--limit", 1)
    assert out.splitlines()[0].split() == ["name", "state", "passages", "bytes", "changed"]
    assert "... 1 more" in out
    code, _, err = hopgraph("rm", "index", "one")
    assert code == 2
    assert "not deleted" in err
    assert "`hopgraph rm index one --yes`" in err
    assert list_indexes() == ["one", "two"]
    assert hopgraph("rm", "index", "one", "--yes")[:2] == (0, "Deleted index one\n")
    assert list_indexes() == ["two"]
    assert hopgraph("rm", "index", "one", "--yes")[0] == 2


def test_threads_are_listed_newest_first_with_their_status_and_deleted(hopgraph, model, contexts, home):  # noqa: F811
    assert hopgraph("list", "threads") == (0, "No threads.\n", "")
    assert not (home / "checkpoints.sqlite").exists()  # looking makes nothing
    model(answer)
    first = json.loads(hopgraph("ask", "Who directed X?", "-m", "no_retrieval", "--json")[1])["thread"]
    model(lambda request: Raw(400, "no"))
    hopgraph("ask", "Where was she\nborn?", "-m", "prism", "--contexts", contexts, "--json")
    found = json.loads(hopgraph("list", "threads", "--json")[1])
    rows = found["threads"]
    assert found["total"] == 2
    assert [(row["method"], row["status"], row["question"]) for row in rows] == [
        ("prism", "unfinished", "Where was she\nborn?"),
        ("no_retrieval", "answered", "Who directed X?"),
    ]
    assert rows[0]["changed"] > rows[1]["changed"][:10]
    text = hopgraph("list", "threads", "--limit", 1)[1].splitlines()
    assert text[1].endswith("Where was she born?")
    assert text[2].startswith("... 1 more")
    assert hopgraph("rm", "thread", first, "nope", "--yes")[0] == 2
    assert hopgraph("rm", "thread", first)[0] == 2
    assert json.loads(hopgraph("list", "threads", "--json")[1])["total"] == 2
    assert hopgraph("rm", "thread", first, "--yes")[0] == 0
    assert [row["thread"] for row in json.loads(hopgraph("list", "threads", "--json")[1])["threads"]] == [
        rows[0]["thread"]
    ]


def test_a_thread_that_a_person_has_to_decide_is_waiting_until_then(hopgraph, model, tmp_path):
    model(test_parrag.play(**test_parrag.BASE | {"planner": test_parrag.plan(test_parrag.WHO)}))
    path = tmp_path / "passages.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in test_parrag.CONTEXTS))
    settings = ["--set", "review=human", "--set", "hop_count=2", "--set", "exemplars=none"]
    words = ["ask", test_parrag.QUESTION, "-m", "parrag", "--thread", "t", "--contexts", path, *settings]

    def status():
        (row,) = json.loads(hopgraph("list", "threads", "--json")[1])["threads"]
        return row["status"]

    assert hopgraph(*words)[0] == 4
    assert status() == "waiting"
    assert hopgraph("resume", "t", "--decision", "accept")[0] == 0
    assert status() == "answered"


def test_listing_reads_the_newest_threads_alone(hopgraph, home, monkeypatch):
    def thread(name, minute):
        return [row(name, f"1f0{minute:02d}a{step:02d}-0000-6000-8000-000000000000") for step in range(20)]

    def row(name, checkpoint):
        made = {"v": 4, "ts": "2026-01-01", "id": checkpoint, "channel_values": {"status": "answered"}}
        made |= {"channel_versions": {}, "versions_seen": {}}
        kind, value = PackingSerializer().dumps_typed(made)
        return name, "", checkpoint, kind, value, json.dumps({"graph_id": "prism"})

    home.mkdir()
    with closing(sqlite3.connect(home / "checkpoints.sqlite")) as file:
        SqliteSaver(file).setup()
        rows = [each for number in range(50) for each in thread(f"t{number}", number)]
        columns = "thread_id, checkpoint_ns, checkpoint_id, type, checkpoint, metadata"
        file.executemany(f"INSERT INTO checkpoints ({columns}) VALUES (?, ?, ?, ?, ?, ?)", rows)
        file.commit()
    decoded = []
    load = PackingSerializer.loads_typed
    monkeypatch.setattr(PackingSerializer, "loads_typed", lambda self, data: decoded.append(1) or load(self, data))
    found = json.loads(hopgraph("list", "threads", "--limit", 3, "--json")[1])
    assert ([row["thread"] for row in found["threads"]], found["total"]) == (["t49", "t48", "t47"], 50)
    assert len(decoded) == 3


def test_runs_are_listed_and_deleted_and_nothing_else_is(hopgraph, model, tmp_path, monkeypatch):
    model(answer)
    monkeypatch.chdir(tmp_path)
    asked = tmp_path / "questions.jsonl"
    asked.write_text(
        '{"id":"1","question":"Who?","answers":["Paris"]}\n{"id":"2","question":"What?","answers":["x"]}\n'
    )
    assert hopgraph("eval", "-m", "no_retrieval", "-q", asked, "--out", "runs/a", "--json")[0] == 0
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "run.json").write_text("{")
    rows = {row["folder"]: row for row in json.loads(hopgraph("list", "runs", "--json")[1])["runs"]}
    assert set(rows) == {"runs/a", "damaged"}
    whole = rows["runs/a"]
    assert (whole["methods"], whole["done"], whole["total"], whole["state"]) == (["no_retrieval"], 2, 2, "complete")
    assert rows["damaged"]["state"].startswith("damaged")
    assert json.loads(hopgraph("list", "runs", "runs", "--json")[1])["total"] == 1
    assert hopgraph("list", "runs", "nowhere")[0] == 2

    (tmp_path / "runs" / "a" / "notes.txt").write_text("mine")
    assert hopgraph("rm", "run", "runs/a")[0] == 2
    with (tmp_path / "runs" / "a" / "run.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert json.loads(hopgraph("list", "runs", "runs", "--json")[1])["runs"][0]["state"] == "running"
        code, _, err = hopgraph("rm", "run", "runs/a", "--yes")
        assert code == 2
        assert "in use by another `hopgraph eval`" in err
    assert hopgraph("rm", "run", "runs/a", "--yes")[:2] == (0, "Deleted the run in runs/a; left: notes.txt\n")
    assert [path.name for path in (tmp_path / "runs" / "a").iterdir()] == ["notes.txt"]
    assert hopgraph("rm", "run", "runs", "--yes")[0] == 2


@pytest.fixture
def _ctrl_c():
    """As at a terminal; what runs in the background may ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def pressed(*args, **options):
    os.kill(os.getpid(), signal.SIGINT)
    pytest.fail("it went on")


@pytest.mark.usefixtures("_ctrl_c")
def test_a_deletion_that_is_stopped_says_what_deletes_the_rest(hopgraph, encoder, model, tmp_path, monkeypatch):  # noqa: F811
    model(answer)
    build_index("one", passages(5))
    asked = tmp_path / "questions.jsonl"
    asked.write_text('{"id":"1","question":"Who?","answers":["Paris"]}\n')
    run = tmp_path / "run"
    assert hopgraph("eval", "-m", "no_retrieval", "-q", asked, "--out", run, "--json")[0] == 0
    for words, deleting in (("index", "one"), "stores.overview.shutil.rmtree"), (("run", run), "pathlib.Path.rmdir"):
        with monkeypatch.context() as patch:
            patch.setattr(deleting, pressed)
            code, out, err = hopgraph("rm", *words, "--yes")
        assert (code, out, err) == (130, "", "hopgraph: stopped; run the same command again to delete the rest\n")
    assert hopgraph("rm", "index", "one", "--yes")[0] == 0
    assert list_indexes() == []
    for name in "ab":
        hopgraph("ask", "Who?", "-m", "no_retrieval", "--thread", name)
    delete = LoopSaver.adelete_thread

    async def last(self, thread):
        await delete(self, thread)
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(30)

    monkeypatch.setattr(LoopSaver, "adelete_thread", last)
    code, _, err = hopgraph("rm", "thread", "b", "a", "--yes")
    assert (code, err) == (130, "hopgraph: stopped; `hopgraph list threads` lists the remaining ones\n")
    assert [row["thread"] for row in json.loads(hopgraph("list", "threads", "--json")[1])["threads"]] == ["a"]


def test_deleting_an_index_deletes_its_vectors_on_a_chroma_server(hopgraph, encoder, tmp_path, monkeypatch):  # noqa: F811
    def collections(url):
        import chromadb

        client = chromadb.HttpClient(host="127.0.0.1", port=int(url.rpartition(":")[2]))
        return {collection.name for collection in client.list_collections()}

    with chroma_server(tmp_path / "chroma") as url:
        monkeypatch.setenv("HOPGRAPH_CHROMA_URL", url)
        get_settings.cache_clear()
        build_index("other", passages(3))
        others = collections(url)
        build_index("one", passages(5))
        assert len(collections(url)) == len(others) + 1
        # It is known where they are, whatever is set now.
        monkeypatch.delenv("HOPGRAPH_CHROMA_URL")
        get_settings.cache_clear()
        assert hopgraph("rm", "index", "one", "--yes")[:2] == (0, "Deleted index one\n")
        assert collections(url) == others
        assert list_indexes() == ["other"]
    code, _, err = hopgraph("rm", "index", "other", "--yes")
    assert code == 3
    assert "the Chroma server failed" in err
    assert list_indexes() == ["other"]
    with chroma_server(tmp_path / "chroma", int(url.rpartition(":")[2])):
        assert hopgraph("rm", "index", "other", "--yes")[0] == 0
        assert collections(url) == set()
    assert list_indexes() == []


def test_tables_are_not_wrapped_where_stdout_is_no_terminal(hopgraph, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    _, out, _ = hopgraph("prompts")
    assert "prism/selector" in out
    assert max(map(len, out.splitlines())) > 100
    assert all("/" in line.split()[0] for line in out.splitlines()[1:] if line.strip())
