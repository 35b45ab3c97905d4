"""`hopgraph read --ray` on a real Ray cluster of three nodes on this machine."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter

import pytest

from hopgraph.knowledge.parts import open_parts
from inference.settings import get_settings
from stores.index import open_index
from stores.knowledge_base import open_pairs
from tests.hopgraph.cluster.conftest import kill_node
from tests.reading import corpus, reader
from tests.scripted import Completion, Raw

PASSAGES = 36


def base(name):
    """Pairs of a knowledge base, and its readings without their times."""
    opened = open_pairs(open_index(name))
    readings = [{**json.loads(json.dumps(vars_of(one))), "seconds": 0} for one in opened.readings()]
    return opened.digest(), readings


def vars_of(reading):
    return {field: getattr(reading, field) for field in reading.__dataclass_fields__}


@pytest.mark.slow
def test_a_node_killed_in_the_middle_costs_nothing(cluster, hopgraph, model, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "3")
    get_settings.cache_clear()
    server = model(lambda request: Completion(json.dumps(reader(request)), delay=0.3))
    corpus(PASSAGES, "towns")
    words = ("read", "--index", "towns", "--coverage-repair", "--json")
    killed: list[int] = []

    def kill() -> None:
        while len(server.requests) < PASSAGES // 3:
            time.sleep(0.01)
        kill_node(cluster)
        killed.append(len(server.requests))

    threading.Thread(target=kill, daemon=True).start()
    code, out, err = hopgraph(*words, "--ray", cluster.address)
    assert code == 0, err
    assert killed
    assert json.loads(out)["read"] == PASSAGES
    repeated = sum(count - 1 for count in Counter(request.id for request in server.requests).values())
    # A killed worker has one call in flight, and perhaps one whose reply was not yet committed.
    assert repeated <= 2
    assert server.most_in_flight <= 3
    assert open_parts("towns") == []
    found = base("towns")

    server.script = reader
    code, out, err = hopgraph(*words, "--anew")
    assert code == 0, err
    assert base("towns") == found


@pytest.mark.slow
def test_a_stopped_reading_is_resumed_and_its_errors_are_clear(cluster, hopgraph, model):
    asked: list[str] = []

    def play(request):
        asked.append(request.id)
        return Raw(401, '{"error": {"message": "no more"}}') if len(asked) > 6 and not more else reader(request)

    more: list[bool] = []
    server = model(play)
    corpus(12, "towns")
    words, ray = ("read", "--index", "towns", "--json"), ("--ray", cluster.address)
    code, _, err = hopgraph(*words, *ray, "--workers", "3")
    assert code == 3
    assert "hopgraph: node " in err
    code, _, err = hopgraph(*words)
    assert code == 2
    assert "was started with --ray, in 3 parts" in err
    more.append(True)
    code, out, err = hopgraph(*words, *ray, "--workers", "2")
    assert code == 0, err
    assert "--workers: the unfinished reading keeps its 3 parts" in err
    assert json.loads(out)["read"] == 12
    finished = [request.id for request in server.requests if request.finished]
    assert len(set(finished)) == 12
    # The first part that can't go on stops the two others, each of which may have a reply that is not committed yet.
    assert len(finished) <= 12 + 2
    assert hopgraph(*words)[0] == 0  # nothing is left to read, here or there


def test_options_that_do_not_fit_are_named(hopgraph, tmp_path):
    for words, said in (
        (("--workers", "2"), "--workers: requires --ray"),
        (("--ray", "auto", "--export", tmp_path / "x"), "--ray: can't be combined with --export"),
    ):
        code, _, err = hopgraph("read", "--index", "x", *words)
        assert code == 2
        assert said in err
