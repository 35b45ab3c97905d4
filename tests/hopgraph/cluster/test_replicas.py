"""Two servers over one Postgres and an index in shards on two Chroma servers, as docs/cluster.md deploys them."""

from __future__ import annotations

import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from inference.settings import get_settings
from stores.build import rebuild_index
from tests.hopgraph.cluster.conftest import until
from tests.hopgraph.test_serve import address, chat, serve
from tests.postgres import running_postgres
from tests.replies import proper_text
from tests.scripted import Completion, ScriptedModel
from tests.small import build_small
from tests.stores.test_build import chroma_server


@pytest.mark.slow
def test_another_replica_goes_on_with_the_run_of_one_that_was_killed(home, tmp_path, monkeypatch):
    pytest.importorskip("psycopg")
    build_small()
    with (
        running_postgres() as postgres,
        chroma_server(tmp_path / "a") as first,
        chroma_server(tmp_path / "b") as second,
        ScriptedModel(lambda request: Completion(proper_text(request, 3), delay=0.4)).running() as scripted,
    ):
        for name, value in {
            "HOME": str(home),
            "CHROMA_URL": f"{first},{second}",
            "CHECKPOINTS": postgres,
            "LLM_URL": scripted.url,
        }.items():
            monkeypatch.setenv(f"HOPGRAPH_{name}", value)
        get_settings.cache_clear()
        rebuild_index("small", shards=2)
        replicas = [serve("--port", 0, "--index", "small") for _ in range(2)]
        try:
            one, other = map(address, replicas)
            with ThreadPoolExecutor() as pool:
                asking = pool.submit(chat, one, "t-1")
                until(lambda: len(scripted.requests) >= 3 or asking.done())
                replicas[0].kill()
                with pytest.raises(httpx.HTTPError):
                    asking.result()
            answer = chat(other, "t-1").json()["hopgraph"]
            again = chat(other, "t-1").json()["hopgraph"]
        finally:
            for process in replicas:
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=30)
    assert answer["status"] in ("answered", "unanswerable")
    assert again["cost"]["calls"] == answer["cost"]["calls"]
    counts = Counter(request.id for request in scripted.requests)
    # The call in flight, and perhaps one whose reply had come and was not committed.
    assert len(counts) == answer["cost"]["calls"]
    assert sum(counts.values()) - len(counts) <= 2
