"""Versions of an index that are no longer served, and what they have on Chroma servers."""

from __future__ import annotations

import signal

import pytest

from inference.errors import EndpointError, StoreError
from inference.settings import get_settings
from stores.build import build_index, rebuild_index
from stores.index import open_index
from stores.overview import remove_index
from tests.stores.test_build import chroma_server, passages, script, until, versions
from tests.stores.test_shards import collections


def use(monkeypatch, url: str) -> None:
    monkeypatch.setenv("HOPGRAPH_CHROMA_URL", url)
    get_settings.cache_clear()


def test_an_index_can_leave_a_server_that_is_gone(encoder, tmp_path, monkeypatch):
    with chroma_server(tmp_path / "a") as url:
        use(monkeypatch, url)
        build_index("x", passages(9), shards=2)
    use(monkeypatch, "")
    rebuild_index("x")
    assert len(versions("x")) == 1
    assert open_index("x").search("passage number 7", 1, "dense")[0].id == "p7"


def test_the_collections_of_a_killed_build_are_deleted_by_the_next_one(encoder, home, tmp_path, monkeypatch):
    with chroma_server(tmp_path / "a") as url:
        body = f"""
import os, time
import stores.workers
os.environ["HOPGRAPH_CHROMA_URL"] = {url!r}
stored = stores.workers.store_shard
def store_one(version, manifest, shard, on_stored, into=None):
    if shard == 1:
        time.sleep(600)
    stored(version, manifest, shard, on_stored)
stores.workers.store_shard = store_one
build_index("x", passages(9), shards=2)
"""
        process = script(body, home)
        until(lambda: collections(url) == 1)
        process.send_signal(signal.SIGKILL)
        process.wait()
        use(monkeypatch, url)
        build_index("x", passages(9), shards=2)
        assert collections(url) == 2


def test_an_index_whose_build_failed_for_want_of_a_server_can_be_deleted(encoder, home, monkeypatch):
    use(monkeypatch, "http://127.0.0.1:9")
    with pytest.raises(EndpointError, match="Chroma server failed"):
        build_index("x", passages(3))
    remove_index("x")
    with pytest.raises(StoreError, match="no index named 'x'"):
        open_index("x")
