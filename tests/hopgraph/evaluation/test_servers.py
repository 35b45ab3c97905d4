"""`hopgraph eval` with a list of servers of which one dies."""

from __future__ import annotations

import json
import threading
import time

from inference.settings import get_settings
from tests.hopgraph.evaluation.conftest import comparable, results, row
from tests.inference.lone_server import LoneServer


def test_a_server_that_dies_costs_no_question(hopgraph, questions, tmp_path, monkeypatch, caplog):
    answer = json.dumps({"answer": "Paris"})
    words = ("eval", "-m", "no_retrieval", "-q", questions([row(n) for n in range(60)]), "--out")
    monkeypatch.setenv("HOPGRAPH_LLM_PATIENCE", "0")
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "2")
    with LoneServer(answer, 0.1) as dying, LoneServer(answer, 0.1) as other:
        monkeypatch.setenv("HOPGRAPH_LLM_URL", f"{dying.url},{other.url}")
        get_settings.cache_clear()

        def kill() -> None:
            while not (tmp_path / "cut" / "results.jsonl").exists():
                time.sleep(0.01)
            time.sleep(0.3)
            dying.kill()

        killing = threading.Thread(target=kill)
        killing.start()
        code, _, err = hopgraph(*words, tmp_path / "cut")
        killing.join()
        assert code == 0, err
        assert f"at {dying.url}: " in caplog.text
        assert "left out, 1 of 2 servers remain" in caplog.text
        monkeypatch.setenv("HOPGRAPH_LLM_URL", other.url)
        get_settings.cache_clear()
        assert hopgraph(*words, tmp_path / "whole")[0] == 0
    found, whole = results(tmp_path / "cut"), results(tmp_path / "whole")
    assert len(found) == 60
    assert {k: comparable(v) for k, v in found.items()} == {k: comparable(v) for k, v in whole.items()}
