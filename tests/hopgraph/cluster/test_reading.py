"""`hopgraph read --ray` on a real Ray cluster of three nodes on this machine."""

from __future__ import annotations

import json
import threading
from collections import Counter

import pytest

from hopgraph.knowledge.parts import open_parts
from inference.settings import get_settings
from stores.index import open_index
from stores.knowledge_base import open_pairs
from stores.shards import shard_of
from tests.hopgraph.cluster.conftest import committed, kill_node, until
from tests.reading import corpus, read_passage, reader
from tests.scripted import Completion, Raw

PASSAGES = 36


def base(name):
    """Pairs of a knowledge base, and its readings without their times."""
    opened = open_pairs(open_index(name))
    readings = [{**json.loads(json.dumps(vars_of(one))), "seconds": 0} for one in opened.readings()]
    return opened.digest(), readings


def on_disk(server) -> set[str]:
    """Calls whose replies are in the checkpoints of a part, or in its lines."""
    parts = open_parts("towns")
    found = committed(path for part in parts if (path := part.path("sqlite")).exists())
    done = {line["reading"]["passage"] for part in parts for line in part.lines}
    return found | {request.id for request in server.requests if passage_of(request) in done}


def passage_of(request) -> str:
    """Id of the passage that a request is about."""
    return f"p{int(read_passage(request)[0].removeprefix('Person ')):02}"


def vars_of(reading):
    return {field: getattr(reading, field) for field in reading.__dataclass_fields__}


@pytest.mark.slow
def test_a_node_killed_in_the_middle_costs_nothing(cluster, hopgraph, model, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "3")
    get_settings.cache_clear()
    server = model(lambda request: Completion(json.dumps(reader(request)), delay=0.3))
    corpus(PASSAGES, "towns")
    words = ("read", "--index", "towns", "--coverage-repair", "--json")
    kept: set[str] = set()

    def kill() -> None:
        until(lambda: len(server.requests) >= PASSAGES // 3)
        kept.update(on_disk(server))
        kill_node(cluster)

    threading.Thread(target=kill, daemon=True).start()
    code, out, err = hopgraph(*words, "--ray", cluster.address)
    assert code == 0, err
    assert len(kept) >= PASSAGES // 6  # a reply is on disk soon after it came
    assert json.loads(out)["read"] == PASSAGES
    asked = Counter(request.id for request in server.requests)
    # A killed worker has one call in flight, and perhaps one whose reply was not yet committed.
    assert sum(asked.values()) - len(asked) <= 2
    assert {asked[key] for key in kept} == {1}
    assert server.most_in_flight <= 3
    assert open_parts("towns") == []
    found = base("towns")

    server.script = reader
    code, out, err = hopgraph(*words, "--anew")
    assert code == 0, err
    assert base("towns") == found


@pytest.mark.slow
def test_a_stopped_reading_is_resumed_and_its_errors_are_clear(cluster, hopgraph, model):
    """The first part is refused once another one has read something, all but one of its passages."""
    more: list[bool] = []
    alone = next(key for number in range(12) if shard_of(key := f"p{number:02}", 3) == 0)

    def play(request):
        if more or shard_of(passage_of(request), 3) != 0 or (selected and passage_of(request) == alone):
            return reader(request)
        until(lambda: any(part.path("jsonl").stat().st_size for part in open_parts("towns")))
        return Raw(401, '{"error": {"message": "no more"}}')

    selected: list[bool] = []
    server = model(play)
    corpus(12, "towns")
    words, ray = ("read", "--index", "towns", "--json"), ("--ray", cluster.address)
    code, _, err = hopgraph(*words, *ray, "--workers", "3")
    assert code == 3
    assert "hopgraph: node " in err
    code, _, err = hopgraph(*words)
    assert code == 2
    assert "was started with --ray, in 3 parts" in err
    selected.append(True)
    code, _, err = hopgraph(*words, *ray, "--id", alone)
    assert code == 0, err
    kept = on_disk(server)
    assert len(open_parts("towns")) == 3  # what was interrupted is not forgotten when something else is read
    more.append(True)
    code, out, err = hopgraph(*words, *ray, "--workers", "2")
    assert code == 0, err
    assert "--workers: the unfinished reading keeps its 3 parts" in err
    assert json.loads(out)["read"] == 12
    finished = Counter(request.id for request in server.requests if request.finished)
    assert len(finished) == 12
    # The first part stops the two others, each of which may have replies that are not committed yet.
    assert {finished[key] for key in kept} == {1}
    assert hopgraph(*words)[0] == 0  # nothing is left to read, here or there


def test_options_that_do_not_fit_are_named(hopgraph, tmp_path):
    for words, said in (
        (("--workers", "2"), "--workers: requires --ray"),
        (("--ray", "auto", "--export", tmp_path / "x"), "--ray: can't be combined with --export"),
    ):
        code, _, err = hopgraph("read", "--index", "x", *words)
        assert code == 2
        assert said in err
