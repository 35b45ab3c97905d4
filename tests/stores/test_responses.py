"""The response cache: one SQLite file, for several threads and processes."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys

import pytest

from inference.errors import StoreError
from stores.responses import Responses, open_responses


async def test_a_reply_is_kept_beyond_the_process_that_stored_it(tmp_path):
    path = tmp_path / "made" / "responses.sqlite"
    first = Responses(path)
    assert await first.get("key") is None
    await first.put("key", "é🙂\n{}")
    assert await Responses(path).get("key") == "é🙂\n{}"
    assert await first.get("other") is None


async def test_a_later_reply_takes_the_place_of_an_earlier_one(tmp_path):
    cache = Responses(tmp_path / "r.sqlite")
    await cache.put("key", "old")
    await cache.put("key", "new")
    assert await cache.get("key") == "new"


async def test_many_tasks_use_it_at_once(tmp_path):
    cache = Responses(tmp_path / "r.sqlite")
    await asyncio.gather(*(cache.put(str(n), f"value {n}") for n in range(200)))
    assert await asyncio.gather(*(cache.get(str(n)) for n in range(200))) == [f"value {n}" for n in range(200)]


async def test_the_event_loop_goes_on_while_another_process_holds_the_file(tmp_path):
    path = tmp_path / "r.sqlite"
    cache = Responses(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    waiting = asyncio.create_task(cache.put("key", "value"))
    for _ in range(5):
        await asyncio.sleep(0.02)
    assert not waiting.done()
    other.execute("COMMIT")
    other.close()
    await asyncio.wait_for(waiting, 10)
    assert await cache.get("key") == "value"


def test_several_processes_make_and_fill_it_together(tmp_path):
    path = tmp_path / "r.sqlite"
    code = (
        "import asyncio, sys; from pathlib import Path; from stores.responses import Responses\n"
        "async def main():\n"
        "    cache = Responses(Path(sys.argv[1]))\n"
        "    for n in range(20): await cache.put(f'{sys.argv[2]}-{n}', sys.argv[2])\n"
        "asyncio.run(main())"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(path), str(n)]) for n in range(3)]
    assert [process.wait(timeout=60) for process in running] == [0, 0, 0]
    cache = Responses(path)
    for who in range(3):
        assert [asyncio.run(cache.get(f"{who}-{n}")) for n in range(20)] == [str(who)] * 20


def test_one_object_serves_a_process(tmp_path):
    assert open_responses(tmp_path / "r.sqlite") is open_responses(tmp_path / "r.sqlite")
    assert open_responses(tmp_path / "r.sqlite") is not open_responses(tmp_path / "s.sqlite")


def test_a_file_that_is_no_database_is_a_clear_error(tmp_path):
    path = tmp_path / "r.sqlite"
    path.write_bytes(b"not a database at all" * 500)
    with pytest.raises(StoreError, match=r"response cache .*r\.sqlite: file is not a database") as caught:
        Responses(path)
    assert caught.value.hint == "delete the file, or run without --cache"


def test_a_folder_in_the_files_place_is_a_clear_error(tmp_path):
    with pytest.raises(StoreError, match="unable to open database file"):
        Responses(tmp_path)


def test_a_file_in_the_folders_place_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(StoreError, match="response cache"):
        Responses(tmp_path / "file" / "r.sqlite")


async def test_a_database_of_another_program_is_a_clear_error(tmp_path):
    path = tmp_path / "r.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE responses (id INTEGER)")
    with pytest.raises(StoreError, match="no such column: value"):
        await Responses(path).get("key")


async def test_damage_within_the_file_is_a_clear_error(tmp_path):
    path = tmp_path / "r.sqlite"
    cache = Responses(path)
    for n in range(300):
        await cache.put(f"key {n}", "x" * 500)
    cache._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw = bytearray(path.read_bytes())
    raw[4096:] = b"\xff" * (len(raw) - 4096)
    path.write_bytes(bytes(raw))
    with pytest.raises(StoreError, match="malformed"):
        await Responses(path).get("key 0")
