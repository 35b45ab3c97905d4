"""What may happen to a run: outages, deadlines, a full disk, damaged files, a second process on the same thread."""

from __future__ import annotations

import json
import os
import random
import resource
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import inference.retries
import inference.server
from hopgraph.cli import run_app
from hopgraph.evaluation.folder import Lines
from hopgraph.methods import load
from hopgraph.run import ask, make_context, resume
from inference.errors import DeadlineError, StoreError
from inference.settings import get_settings
from stores.checkpoints import only_here, open_checkpoints
from tests.hopgraph.test_run import CONTEXTS, HOPS, LINES, NODES, QUESTION, go_on, play, start, without_times
from tests.scripted import Completion, Raw, Request


def asking(tmp_path: Path) -> list[str]:
    """The words of `hopgraph ask` on thread `t`."""
    contexts = tmp_path / "contexts.jsonl"
    contexts.write_text("\n".join(map(json.dumps, CONTEXTS)))
    return ["ask", QUESTION, "--method", "prism", "--contexts", str(contexts), "--thread", "t", "--json"]


def command(words: list[str], **options: Any) -> subprocess.Popen[str]:
    """The same in a process of its own."""
    line = [sys.executable, "-m", "hopgraph", *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(line, stdout=pipe, stderr=pipe, text=True, env=dict(os.environ), **options)


def ids(server) -> Counter[str]:
    return Counter(request.id for request in server.requests)


# Outages


async def test_an_outage_that_ends_is_waited_out(model, monkeypatch, caplog):
    """Half of the calls come while the server is down; no number of tries is what ends them."""
    monkeypatch.setattr(inference.retries, "FIRST_BACKOFF", 0.2)
    monkeypatch.setattr(inference.retries, "MAX_BACKOFF", 0.4)
    monkeypatch.setattr(inference.server, "_WORTH_SAYING", 0.2)
    back: list[float] = []

    def script(request: Request):
        if request.node == "adder":
            back or back.append(time.time() + 2.5)
            if time.time() < back[0]:
                return Raw(503, "{}")
        return play(request)

    server = model(script)
    result = await start("t")
    assert (result["status"], result["answer"], result["cost"]["calls"]) == ("answered", "Paris", 6)
    assert max(ids(server).values()) >= 5
    said = [record.getMessage() for record in caplog.records if record.name == "inference.server"]
    assert len(said) == 1  # once an outage, not once a try
    assert "503" in said[0]
    assert "trying again for up to 300 s" in said[0]


def test_an_outage_that_does_not_end_stops_the_run_which_is_resumed_by_what_it_says(
    model, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("HOPGRAPH_LLM_PATIENCE", "1.5")
    down = [True]
    server = model(lambda r: Raw(503, "{}") if down[0] and r.node == "adder" else play(r))
    assert run_app(asking(tmp_path)) == 3
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert (result["status"], result["error"]["kind"], result["error"]["node"]) == ("failed", "endpoint", "adder")
    assert "`hopgraph resume t`" in err
    assert "Traceback" not in err
    finished = {request.id for request in server.requests if request.finished}
    down[0] = False
    assert run_app(["resume", "t", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["answer"] == "Paris"
    assert all(ids(server)[key] == 1 for key in finished)


# Deadlines


async def test_a_node_that_takes_too_long_stops_the_run_and_the_next_try_goes_on_from_there(model):
    model(play)
    await start("before")  # loads what the first call of a process loads
    slow = [60.0]
    server = model(lambda r: Completion(json.dumps(LINES[r.node]), delay=slow[0] if r.node == "adder" else 0))
    began = time.monotonic()
    failed = await start("t", settings={"node_timeout": 8})
    assert time.monotonic() - began < 50
    assert (failed["status"], failed["answer"]) == ("failed", "")
    assert failed["error"] == {
        "kind": "deadline",
        "message": "the node took longer than 8 s (in adder)",
        "node": "adder",
        "hint": "resume the run, which has the same time again; or raise node_timeout",
    }
    assert failed["cost"]["calls"] == 2
    slow[0] = 0
    result = await go_on("t")
    assert (result["status"], result["cost"]["calls"]) == ("answered", 6)
    assert sorted(ids(server).values()) == [1, 1, 1, 1, 1, 2]


async def test_pauses_between_tries_are_part_of_a_node_s_time(model):
    model(lambda r: Raw(503, "{}"))
    assert (await start("t", settings={"node_timeout": 0.7}))["error"]["kind"] == "deadline"


async def test_a_run_that_takes_too_long_ends_in_several_goes_without_losing_a_call(model, clock):
    def slowly(request):
        clock(250.0)
        return LINES[request.node]

    server = model(slowly)
    result = await start("t", settings={"run_timeout": 600})
    assert result["error"]["kind"] == "deadline"
    assert result["error"]["message"].startswith("the run took longer than 600 s")
    assert result["cost"]["calls"] == 3
    result = await go_on("t")
    assert (result["answer"], result["cost"]["calls"]) == ("Paris", 6)
    assert server.nodes() == NODES


async def test_the_run_of_a_graph_that_a_program_invokes_has_a_deadline_too(model, clock):
    def slowly(request):
        clock(250.0)
        return HOPS[request.node]

    server = model(slowly)
    given = {"question": QUESTION, "contexts": CONTEXTS}
    with pytest.raises(DeadlineError, match="the run took longer than 600 s"):
        await load("hanrag").ainvoke(given, context={"run_timeout": 600})
    # Its time is that of all its nodes, the subgraph's among them: router, refiner, and three judges side by side.
    assert 3 <= len(server.requests) <= 5
    # Another run has a time of its own, even with settings that are the same object.
    context = make_context("prism", {"run_timeout": 100_000})
    model(lambda r: clock(10_000.0) or LINES[r.node])
    for _ in range(2):
        assert (await load("prism").ainvoke(given, context=context))["answer"] == "Paris"


async def test_deadlines_that_are_not_reached_change_nothing(model):
    model(play)
    whole = await start("whole")
    timed = await start("timed", settings={"run_timeout": 600, "node_timeout": 60})
    assert without_times({**timed, "thread": ""}) == without_times({**whole, "thread": ""})


# Disks and files


def small_files(size: int):
    """Have a process's files end at so many bytes, as those of a full disk do."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_a_full_disk_is_a_clear_error_and_with_room_again_the_run_goes_on(model, tmp_path, capsys):
    server = model(play)
    _, err = command(asking(tmp_path), preexec_fn=small_files(90_000)).communicate(timeout=300)
    assert "checkpoints.sqlite" in err
    assert "finished steps are kept" in err.casefold()
    assert "Traceback" not in err
    assert 1 <= len(server.requests) < len(NODES)
    assert run_app(asking(tmp_path)) == 0
    assert json.loads(capsys.readouterr().out)["answer"] == "Paris"
    assert len(server.requests) <= len(NODES) + 1  # the call whose reply found no room


def test_a_results_file_on_a_full_disk_is_as_it_was_before_the_line_that_did_not_fit(tmp_path):
    code = """
import resource, sys
from pathlib import Path
from hopgraph.evaluation.folder import Lines
from inference.errors import StoreError
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
with Lines(Path(sys.argv[1]), {"id"}).appending() as add:
    try:
        for number in range(100):
            add({"id": number, "text": "x" * 90})
    except StoreError as error:
        print(number, error.message)
    try:
        add({"id": -1})
    except StoreError:
        pass
"""
    path = tmp_path / "results.jsonl"
    out = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True).stdout
    number, _, message = out.partition(" ")
    assert "results.jsonl: can't be written (File too large)" in message
    assert [line["id"] for line in Lines(path, {"id"})][: int(number)] == list(range(int(number)))
    assert path.read_bytes().endswith(b"\n")


@pytest.mark.parametrize("words", [["ask", QUESTION], ["resume", "t"]])
def test_a_folder_that_cannot_be_written_is_named(model, monkeypatch, words, tmp_path, capsys):
    model(play)
    # A folder below a file can't be made by anybody, root included.
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOPGRAPH_HOME", str(tmp_path / "file" / "home"))
    get_settings.cache_clear()
    assert run_app(words) == 2
    err = capsys.readouterr().err
    assert "checkpoints in" in err
    assert "set HOPGRAPH_CHECKPOINTS or HOPGRAPH_HOME to a place that can be written" in err


async def test_a_read_only_checkpoint_file_is_a_clear_error(model, home):
    model(play)
    async with open_checkpoints() as saver:
        await ask(QUESTION, make_context("prism", {}), saver, thread="t", contexts=CONTEXTS)
        saver._at_once.conn.execute("PRAGMA query_only=ON")  # type: ignore[attr-defined]
        with pytest.raises(StoreError, match=r"checkpoints\.sqlite: .*readonly") as caught:
            await ask(QUESTION, make_context("prism", {}), saver, thread="u", contexts=CONTEXTS)
        assert "a place that can be written" in caught.value.hint
        assert (await resume("t", saver))["answer"] == "Paris"


@pytest.mark.parametrize("seed", range(6))
async def test_a_damaged_checkpoint_file_gives_its_threads_or_a_clear_error(model, home, seed):
    model(play)
    whole = await start("t")
    path = home / "checkpoints.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    data = bytearray(path.read_bytes())
    rng = random.Random(seed)
    for _ in range(rng.choice([1, 3, 20])):
        at = rng.randrange(100, len(data) - 512)
        data[at : at + 512] = rng.randbytes(512)
    path.write_bytes(data)
    with suppress(StoreError):  # nothing else
        assert await go_on("t") == whole


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("checkpoint", b"garbage"),
        ("checkpoint", b""),
        ("checkpoint", b"\x93\x01\x02"),
        ("type", "pickle"),
        ("type", "unheard of"),
        ("metadata", b"{"),
        ("metadata", b"\xff\xfe"),
        ("metadata", b"[]"),
        ("metadata", b'{"hopgraph": "{}"}'),
        ("metadata", b'{"hopgraph": "[1]"}'),
        ("metadata", b'{"hopgraph": 5}'),
    ],
)
async def test_a_checkpoint_that_holds_something_else_is_a_clear_error(model, home, column, value):
    model(play)
    await start("t")
    with sqlite3.connect(home / "checkpoints.sqlite") as connection:
        connection.execute(f"UPDATE checkpoints SET {column} = ?", (value,))
    connection.close()
    with pytest.raises(StoreError):
        await go_on("t")


async def test_a_thread_whose_state_was_edited_into_nonsense_is_a_clear_error(model, home):
    model(play)
    await start("t")
    async with open_checkpoints() as saver:
        for key, value in [("ledger", [{"id": "x"}]), ("evidence", [7])]:
            config = {"configurable": {"thread_id": "t"}}
            latest = await saver.aget_tuple(config)
            graph, about = load("prism", saver), {"hopgraph": latest.metadata["hopgraph"]}
            await graph.aupdate_state({**config, "metadata": about}, {key: value}, as_node="generator")
            with pytest.raises(StoreError, match="thread t: its state can't be read"):
                await resume("t", saver)
            await saver.adelete_thread("t")
            await ask(QUESTION, make_context("prism", {}), saver, thread="t", contexts=CONTEXTS)


# Two at a time


def test_a_thread_that_is_being_run_is_not_run_a_second_time(model, tmp_path, capsys):
    hold = [True]

    def script(request: Request):
        while request.node == "adder" and hold[0]:
            time.sleep(0.02)
        return play(request)

    server = model(script)
    first = command(asking(tmp_path))
    deadline = time.time() + 300
    while len(server.requests) < 3 and time.time() < deadline:
        time.sleep(0.02)
    assert run_app(["resume", "t"]) == 2
    assert "thread t is being run by another process" in capsys.readouterr().err
    assert len(server.requests) == 3
    first.kill()
    first.communicate()
    hold[0] = False
    assert run_app(["resume", "t", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["answer"] == "Paris"
    assert sorted(ids(server).values()) == [1, 1, 1, 1, 1, 2]


async def test_a_thread_is_held_by_one_and_free_again_afterwards(home):
    async with open_checkpoints() as saver, open_checkpoints() as other:
        async with only_here(saver, "t"):
            with pytest.raises(StoreError, match="thread t is being run"):
                async with only_here(other, "t"):
                    pass
            async with only_here(other, "u"):
                pass
        async with only_here(other, "t"):
            pass
        assert list((home / "running").iterdir()) == []


async def test_threads_of_the_same_name_in_two_files_have_nothing_to_do_with_each_other(home, tmp_path):
    place = str(tmp_path / "other.sqlite")
    async with (
        open_checkpoints() as saver,
        open_checkpoints(place) as other,
        only_here(saver, "t"),
        only_here(other, "t"),
    ):
        pass
