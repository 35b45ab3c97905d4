"""`hopgraph eval --ray` on a real Ray cluster of three nodes on this machine."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import threading
from pathlib import Path

import pytest

from hopgraph.cluster import connection, evaluation
from hopgraph.evaluation import identity
from inference.settings import get_settings
from tests.hopgraph.cluster.conftest import committed, kill_node, until
from tests.hopgraph.evaluation.conftest import CONTEXTS, LINES, comparable, results, row
from tests.kills import committed_in
from tests.postgres import running_postgres
from tests.scripted import Completion


def play(request):
    return LINES[request.node]


@pytest.fixture(params=["files of the shards", "one Postgres"])
def kept_calls(request, tmp_path, home, monkeypatch):
    """Model calls in the checkpoints of the run `ray`, wherever these are."""
    if request.param == "files of the shards":
        yield lambda: committed((tmp_path / "ray" / "shards").glob("*/checkpoints.sqlite"))
        return
    with running_postgres() as url:
        monkeypatch.setenv("HOPGRAPH_CHECKPOINTS", url)
        get_settings.cache_clear()
        yield lambda: committed_in(url)
    assert not list((tmp_path / "ray").rglob("checkpoints.sqlite"))


@pytest.mark.slow
def test_a_node_killed_in_the_middle_costs_nothing(
    cluster, hopgraph, model, questions, tmp_path, monkeypatch, kept_calls
):
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "3")
    get_settings.cache_clear()
    server = model(lambda request: Completion(json.dumps(play(request)), delay=0.1))
    asked = questions([row(n) for n in range(24)])
    words = ("eval", "-m", "prism", "-q", asked, "--contexts", "--out")
    kept: set[str] = set()

    def kill() -> None:
        until(lambda: len(server.requests) >= 60)
        kept.update(kept_calls())
        kill_node(cluster)

    killing = threading.Thread(target=kill, daemon=True)
    killing.start()
    code, out, err = hopgraph(*words, tmp_path / "ray", "--ray", cluster.address, "--workers", "3", "--json")
    assert code == 0, err
    assert len(kept) >= 30  # of the sixty: a reply is on disk soon after it came
    assert "3 nodes, 3 CPUs" in err
    # Ray may start the task again, and say so, before it takes the node for dead.
    assert re.search(r"node \S+ \(\w{6}\) has died; its work goes on on another one", err) or "Task answer_shard" in err
    latest, repeated, seen = {}, [], set()
    for request in server.requests:
        thread = request.id.partition(".")[0]
        if request.id in seen:
            repeated.append(request.id)
            assert latest[thread] == request.id
        seen.add(request.id)
        latest[thread] = request.id
    # A killed worker answers two questions at a time, each with one call in flight or not yet committed.
    assert len(repeated) <= 2
    assert kept.isdisjoint(repeated)
    assert server.most_in_flight <= 3
    server.script = play
    code, whole, _ = hopgraph(*words, tmp_path / "whole", "--json")
    assert code == 0
    found, expected = results(tmp_path / "ray"), results(tmp_path / "whole")
    assert len(found) == 24
    assert {k: comparable(v) for k, v in found.items()} == {k: comparable(v) for k, v in expected.items()}
    assert json.loads(out)["variants"][0]["metrics"] == json.loads(whole)["variants"][0]["metrics"]


@pytest.mark.slow
def test_a_run_is_resumed_on_another_cluster_and_its_errors_are_clear(
    cluster, hopgraph, model, questions, tmp_path, monkeypatch
):
    server = model(play)
    asked = questions([row(n) for n in range(4)])
    run, plain = tmp_path / "run", tmp_path / "plain"
    words = ("eval", "-m", "no_retrieval", "-q", asked, "--out")
    ray = ("--ray", cluster.address)
    actual = identity.versions()

    with monkeypatch.context() as patch:
        patch.setattr(identity, "versions", lambda: {**actual, "langgraph": "0.0.1"})
        code, _, err = hopgraph(*words, run, *ray, "--workers", "2")
        assert code == 2
        assert f'has other versions: langgraph: "0.0.1", now "{actual["langgraph"]}"' in err
        assert "hopgraph: node " in err
    for variables, expected, said in (
        ({"HOPGRAPH_LLM_URL": "http://127.0.0.1:9/v1"}, 3, "can't reach the model's server at http://127.0.0.1:9/v1"),
        ({"HOPGRAPH_EMBEDDED_MODEL": "/weights.gguf"}, 2, "/weights.gguf"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(evaluation, "variables_of_workers", lambda _, given=variables: given)
            code, _, err = hopgraph(*words, run, *ray)
            assert code == expected
            assert "hopgraph: node " in err
            assert said in err
    assert server.requests == []
    code, _, err = hopgraph("eval", "--resume", run)
    assert code == 2
    assert "was started with --ray" in err
    assert hopgraph("eval", "--resume", run, *ray)[0] == 0
    assert len(results(run)) == 4
    assert sorted(path.name for path in (run / "shards").iterdir()) == ["1-of-2", "2-of-2"]
    assert len(server.requests) == 4

    assert hopgraph("eval", "--resume", run)[0] == 0  # a finished run needs no cluster
    thread = results(run)["no_retrieval", "q3"]["thread"]
    assert hopgraph("trace", thread, "--run", run, "--out", tmp_path / "trace.html")[0] == 0
    assert hopgraph("rm", "run", run, "--yes")[0] == 0
    assert not run.exists()

    assert hopgraph(*words, plain)[0] == 0
    lines = (plain / "results.jsonl").read_text().splitlines(keepends=True)
    (plain / "results.jsonl").write_text("".join(lines[1:]))
    code, _, err = hopgraph("eval", "--resume", plain, *ray)
    assert code == 2
    assert "was started without --ray" in err


@pytest.mark.slow
def test_an_index_that_a_worker_does_not_see_is_a_clear_error(
    cluster, hopgraph, model, questions, tmp_path, monkeypatch
):
    server = model(play)
    corpus = tmp_path / "passages.jsonl"
    corpus.write_text("".join(json.dumps(passage) + "\n" for passage in CONTEXTS))
    assert hopgraph("index", corpus, "--name", "films")[0] == 0
    asked = ("eval", "-m", "standard_rag", "-q", questions([row(1)]), "--index", "films", "--out", tmp_path / "run")
    elsewhere = {"HOPGRAPH_LLM_URL": server.url, "HOPGRAPH_HOME": str(tmp_path / "elsewhere")}
    monkeypatch.setattr(evaluation, "variables_of_workers", lambda _: elsewhere)
    code, _, err = hopgraph(*asked, "--ray", cluster.address)
    assert code == 2
    assert re.search(r"hopgraph: node \S+: no index named 'films'", err)
    assert server.requests == []


@pytest.fixture
def closed_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        yield one.getsockname()[1]


def test_a_cluster_that_is_not_there_is_a_clear_error(hopgraph, model, questions, tmp_path, closed_port):
    server = model(play)
    asked = ("eval", "-m", "no_retrieval", "-q", questions([row(1)]), "--out", tmp_path / "run")
    http = server.url.split("/")[2]
    for address, said in (
        (f"127.0.0.1:{closed_port}", "no Ray cluster answers there ([Errno 111]"),
        (http, "no Ray cluster answers there (something else does)"),
        ("ray://head:10001", "must be HOST:PORT, auto or local"),
        ("head", "must be HOST:PORT, auto or local"),
        ("127.0.0.1:99999", "no Ray cluster answers there"),
    ):
        code, out, err = hopgraph(*asked, "--ray", address)
        assert (code, out) == (2, "")
        assert f"--ray {address}: {said}" in err
    assert not (tmp_path / "run").exists()
    assert server.requests == []


def test_options_that_do_not_fit_are_named(hopgraph, questions, tmp_path):
    asked = ("eval", "-m", "no_retrieval", "-q", questions([row(1)]), "--out", tmp_path / "run")
    for words, said in (
        (("--workers", "2"), "--workers: requires --ray"),
        (("--ray", "auto", "--shard", "1/2"), "--ray: can't be combined with --shard"),
    ):
        code, _, err = hopgraph(*asked, *words)
        assert code == 2
        assert said in err
    code, _, err = hopgraph("eval", "--merge", tmp_path, "--out", tmp_path / "run", "--ray", "auto")
    assert code == 2
    assert "--ray: can't be combined with --merge" in err


def test_without_the_extra_the_command_says_what_to_install(hopgraph, model, questions, tmp_path, monkeypatch):
    model(play)
    monkeypatch.setitem(sys.modules, "ray", None)
    asked = ("eval", "-m", "no_retrieval", "-q", questions([row(1)]), "--out", tmp_path / "run")
    code, _, err = hopgraph(*asked, "--ray", "local")
    assert code == 2
    assert "pip install 'hopgraph[cluster]'" in err


def test_a_worker_has_the_variables_and_its_share_of_the_calls(home, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some.gguf").touch()
    monkeypatch.setenv("HOPGRAPH_EMBEDDED_MODEL", "some.gguf")
    monkeypatch.setenv("HOPGRAPH_LLM_API_KEY", "secret")
    monkeypatch.setenv("HOPGRAPH_PROMPTS", "my_prompts")
    for given, expected in (("8", "2"), ("2", "1"), ("auto", "auto")):
        monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", given)
        get_settings.cache_clear()
        found = connection.variables_of_workers(3)
        assert found["HOPGRAPH_LLM_CONCURRENCY"] == expected
        assert found["HOPGRAPH_HOME"] == str(home)
        assert found["HOPGRAPH_PROMPTS"] == str(Path("my_prompts").resolve())
        assert found["HOPGRAPH_EMBEDDED_MODEL"] == str(tmp_path / "some.gguf")
        assert found["HOPGRAPH_LLM_API_KEY"] == "secret"


@pytest.mark.parametrize(
    ("limit", "wanted", "expected"),
    [("auto", None, 8), ("auto", 20, 20), ("64", None, 8), ("3", None, 3), ("3", 20, 3)],
)
def test_there_are_no_more_workers_than_calls_in_flight(home, monkeypatch, limit, wanted, expected):
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", limit)
    get_settings.cache_clear()
    cluster = connection.Cluster("local", cpus=8, nodes=1, dashboard="")
    assert connection.worker_count(cluster, wanted) == expected
    at_once = int(connection.variables_of_workers(expected)["HOPGRAPH_LLM_CONCURRENCY"]) if limit != "auto" else 1
    assert limit == "auto" or at_once * expected <= int(limit)


def test_set_up_replaces_the_variables_of_a_worker(monkeypatch):
    monkeypatch.setattr(os, "environ", {"HOPGRAPH_CACHE": "on", "PATH": os.environ["PATH"]})
    connection.set_up({"HOPGRAPH_LLM_MODEL": "m"})
    assert {name for name in os.environ if name.startswith("HOPGRAPH_")} == {"HOPGRAPH_LLM_MODEL"}
