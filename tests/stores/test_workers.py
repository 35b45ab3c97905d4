"""Shards that are stored by processes of their own, and indexes that get as many shards as they need."""

from __future__ import annotations

import shutil
import signal
import subprocess

import pytest

from inference.errors import StoreError
from stores import build, workers
from stores.build import add_to_index, build_index
from stores.index import MODES, open_index
from stores.manifest import Manifest, current_version, index_folder
from stores.passages import Passage
from stores.workers import _store_apart

PASSAGES = [Passage(f"p{n}", f"Title {n}", f"The number {n} lives in house {n % 5}.") for n in range(23)]


@pytest.fixture(autouse=True)
def few(encoder, monkeypatch):
    monkeypatch.setattr(build, "MOST_IN_SHARD", 8)
    monkeypatch.setattr(workers, "APART", 20)


def found(name):
    index = open_index(name)
    return {mode: [(h.id, h.score) for h in index.search("number 7 in house 2", 5, mode)] for mode in MODES}


def version(name) -> tuple:
    folder = current_version(index_folder(name))
    return folder, Manifest.read(folder)


def test_a_new_index_has_as_many_shards_as_its_passages_need_and_finds_the_same(monkeypatch):
    told = []
    processes = []
    monkeypatch.setattr(workers, "_store_apart", lambda *args: processes.append(args[2]) or _store_apart(*args))
    built = build_index("large", PASSAGES, progress=lambda stage, done, total: told.append((stage, done)))
    assert built.manifest.shards == 3
    assert processes == [0, 1, 2]
    assert max(done for stage, done in told if stage == "store") == len(PASSAGES)
    assert build_index("one", PASSAGES, shards=1).manifest.shards == 1
    assert found("large") == found("one")
    assert open_index("large").hash == open_index("one").hash


def test_a_small_index_has_one_shard_and_an_existing_one_keeps_its_number():
    assert build_index("small", PASSAGES[:8]).manifest.shards == 1
    assert add_to_index("small", PASSAGES).manifest.shards == 1
    assert build_index("small", PASSAGES).manifest.shards == 1


def test_an_index_on_a_server_has_the_shards_that_were_asked_for():
    assert build._shard_count(None, None, "http://127.0.0.1:9") == 1
    assert build._shard_count(2, None, "http://127.0.0.1:9") == 2


def test_an_error_of_the_process_is_the_build_s(tmp_path):
    build_index("large", PASSAGES)
    folder, manifest = version("large")
    (folder / "passages.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(StoreError, match=r"passages\.sqlite"):
        _store_apart(folder, manifest, 0, lambda count: None)


def test_a_process_that_crashes_is_named_and_the_build_goes_on_when_started_again(monkeypatch):
    with monkeypatch.context() as crashing:
        crashing.setattr(workers, "_PROCESS", "import os; os._exit(9)")
        with pytest.raises(StoreError, match=r"stored shard 0 .* ended with 9") as error:
            build_index("large", PASSAGES)
    assert "vectors are kept" in error.value.hint
    again = build_index("large", PASSAGES)
    assert (again.encoded, again.manifest.shards) == (0, 3)


def test_what_interrupts_the_build_ends_the_process(monkeypatch):
    build_index("large", PASSAGES)
    folder, manifest = version("large")
    shutil.rmtree(folder / "dense")
    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda *args, **options: started.append(popen(*args, **options)) or started[0]
    )

    def interrupt(count):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _store_apart(folder, manifest, 0, interrupt)
    assert started[0].returncode == -signal.SIGKILL
