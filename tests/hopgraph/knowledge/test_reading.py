"""`hopgraph read`: the real command over a real index; killed, resumed, refused, reported."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from hopgraph.cli import run_app
from inference.settings import get_settings
from stores.build import add_to_index, build_index
from stores.index import open_index
from stores.knowledge_base import open_pairs
from stores.manifest import index_folder
from stores.pairs import Pairs
from stores.passages import Passage
from tests.reading import corpus, read_passage, reader
from tests.scripted import Completion, Raw, Request


@pytest.fixture
def hopgraph(capfd, home):
    """Runs a command line; gives exit code, stdout and stderr."""

    def run(*words: str):
        code = run_app(list(words))
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run


@pytest.fixture
def read(hopgraph):
    """Reads `towns`; gives the report."""

    def run(*words: str):
        code, out, err = hopgraph("read", "--index", "towns", "--json", *words)
        assert code == 0, err
        return json.loads(out)

    return run


def pairs(name="towns"):
    return {pair.id: (pair.question, pair.answer) for pair in open_pairs(open_index(name)).all_pairs()}


def titles(server, node="pair_writer"):
    return [read_passage(request)[0] for request in server.requests if request.node == node]


def test_every_passage_is_read_once_and_the_report_adds_up(model, read):
    corpus(6)
    server = model(reader)
    report = read()
    assert sorted(titles(server)) == sorted(f"Person {n}" for n in range(6))
    assert (report["passages"], report["read"], report["failed"], report["left"]) == (6, 6, 0, 0)
    assert report["pairs"] == 12
    assert report["pairs_per_passage"] == {"mean": 2, "median": 2, "least": 2, "most": 2}
    assert report["dropped"] == {"not verbatim": 6}
    assert 0 < report["coverage"] < 1
    assert report["tokens"]["calls"] == 6
    assert report["coverage_tokens"] == {"calls": 0, "prompt": 0, "completion": 0}
    assert report["now"]["passages"] == 6
    assert report["models"] == {"scripted": 6}
    assert pairs()["p03#1"] == ("Where was Person 3 born?", "Cairo")
    assert not list(index_folder("towns").glob("pairs.running*"))


def test_reading_again_asks_nothing(model, read):
    corpus(3)
    server = model(reader)
    first = read()
    again = read()
    assert len(server.requests) == 3
    assert {**first, "now": 0} == {**again, "now": 0}


def test_coverage_repair_is_accounted_apart(model, read):
    corpus(3)
    model(reader)
    without = read()
    report = read("--anew", "--coverage-repair")
    assert report["tokens"] == without["tokens"]
    assert report["coverage_tokens"]["calls"] == 3
    assert report["coverage_tokens"]["prompt"] > 50
    assert report["pairs"] == 9
    assert report["coverage"] > without["coverage"]
    assert sum(pair.coverage for pair in open_pairs(open_index("towns")).all_pairs()) == 3


def test_a_repair_counts_among_the_tokens_of_the_call_that_it_repairs(model, read):
    corpus(1)
    bad = ["coverage_repairer"]
    model(lambda r: Completion("garbage") if r.node in bad and bad.pop() else reader(r))
    report = read("--coverage-repair")
    assert (report["repairs"], report["tokens"]["calls"], report["coverage_tokens"]["calls"]) == (1, 1, 2)


def test_a_limit_and_ids_say_what_is_read_now(model, read, hopgraph):
    corpus(5)
    server = model(reader)
    assert read("--limit", "2")["left"] == 3
    assert sorted(titles(server)) == ["Person 0", "Person 1"]
    assert read("--id", "p04", "--id", "p00")["left"] == 2
    assert titles(server)[2:] == ["Person 4"]
    code, _, err = hopgraph("read", "--index", "towns", "--id", "p77")
    assert (code, "has no passage p77" in err) == (2, True)


def test_a_model_of_its_own_can_read(model, read):
    corpus(1)
    server = model(reader, owned_by=None)  # one that takes any name
    read("--model", "big-reader")
    assert server.requests[0].body["model"] == "big-reader"


def test_settings_reach_the_reader(model, read):
    corpus(1)
    model(reader)
    assert read("--set", "verbatim=flag")["dropped"] == {"flagged": 1}
    assert len(pairs()) == 3


def test_passages_are_read_side_by_side_up_to_the_endpoint_s_limit(model, read, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "3")
    corpus(9)
    server = model(lambda request: Completion(json.dumps(reader(request)), delay=0.1))
    read()
    assert server.most_in_flight == 3


def test_a_passage_that_fails_is_reported_and_moves_no_other(model, read):
    corpus(5)
    bad = {"Person 2"}
    server = model(lambda r: Completion("garbage") if read_passage(r)[0] in bad else reader(r))
    report = read()
    assert (report["read"], report["failed"], report["left"]) == (4, 1, 0)
    assert report["failures"] == {"model_output": 1}
    assert report["failed_ids"] == ["p02"]
    assert report["repairs"] == 1
    assert {key.partition("#")[0] for key in pairs()} == {"p00", "p01", "p03", "p04"}
    assert pairs()["p03#1"] == ("Where was Person 3 born?", "Cairo")
    asked = len(server.requests)
    assert read()["failed"] == 1  # not tried again unasked: the reply would be the same
    assert len(server.requests) == asked
    bad.clear()
    report = read("--retry-failed")
    assert (report["read"], report["failed"]) == (5, 0)
    assert len(server.requests) == asked + 1
    assert pairs()["p02#1"] == ("Where was Person 2 born?", "Oslo")


def test_an_endpoint_that_refuses_one_passage_does_not_stop_the_others(model, read, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "0")
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "1")
    corpus(4)
    bad = {"Person 2"}
    server = model(lambda r: Raw(400, '{"error": {"message": "no"}}') if read_passage(r)[0] in bad else reader(r))
    report = read()
    assert (report["read"], report["left"], report["failures"]) == (3, 1, {"endpoint": 1})
    bad.clear()
    assert (read()["read"], titles(server).count("Person 2")) == (4, 2)


def test_a_passage_that_takes_too_long_stops_no_other_and_goes_on_the_next_time(model, read, monkeypatch, clock):
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "1")
    corpus(3)
    slow = {"Person 0"}

    def script(request: Request):
        if read_passage(request)[0] in slow:
            clock(1_000)
        return reader(request)

    server = model(script)
    report = read("--coverage-repair", "--set", "run_timeout=600")
    assert (report["read"], report["failed"], report["left"]) == (2, 0, 1)
    assert (report["failures"], report["failed_ids"]) == ({"deadline": 1}, ["p00"])
    slow.clear()
    report = read("--coverage-repair", "--set", "run_timeout=600")
    assert (report["read"], report["left"], report["failures"]) == (3, 0, {})
    assert titles(server).count("Person 0") == 1  # its first call was finished


def test_an_endpoint_that_is_down_stops_the_reading_and_the_next_one_goes_on(model, hopgraph, read, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "0")
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "1")
    corpus(8)
    down = [False]

    def script(request: Request):
        down[0] = down[0] or read_passage(request)[0] == "Person 3"
        return Raw(503, "{}") if down[0] else reader(request)

    server = model(script)
    code, out, err = hopgraph("read", "--index", "towns")
    assert (code, out) == (3, "")
    assert "the 3 passages read are kept" in err
    assert "run the same command again to resume" in err
    assert len(server.requests) == 6
    server.script = reader
    assert read()["read"] == 8
    assert Counter(titles(server))["Person 1"] == 1


def test_a_passage_that_does_not_fit_the_model_is_a_failure_of_its_own(model, read, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_CONTEXT", "2400")
    corpus(2)
    add_to_index("towns", [Passage(id="long", title="Long", text="word " * 250, sentences=("word " * 250,))])
    model(reader, tokenize=True)
    report = read("--set", "max_tokens=2000")
    assert report["failures"] == {"prompt_too_long": 1}
    assert report["failed_ids"] == ["long"]
    assert report["read"] == 2


def test_after_the_index_has_changed_only_what_is_new_is_read(model, read):
    corpus(4)
    server = model(reader)
    read()
    changed = Passage(id="p01", title="Person 1", text="Person 1 was born in Bonn in 1901. Person 1 died in Bonn.")
    new = Passage(id="p99", title="Person 99", text="Person 99 was born in Riga in 1999. Person 99 died in Riga.")
    add_to_index("towns", [changed, new])
    report = read()
    assert (report["read"], report["left"], len(server.requests)) == (5, 0, 6)
    assert sorted(titles(server)[4:]) == ["Person 1", "Person 99"]
    assert pairs()["p01#1"] == ("Where was Person 1 born?", "Bonn")


def test_people_see_how_far_it_is_and_what_it_cost(model, hopgraph):
    corpus(3)
    model(reader)
    code, out, err = hopgraph("read", "--index", "towns", "--limit", "2", "--coverage-repair")
    assert (code, err) == (0, "")
    assert "2 of 3 passages read; 1 left" in out
    assert "entities mentioned by a pair" in out
    assert "2 not verbatim" in out
    assert "coverage repair: 2 calls" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["read"], "--index is missing"),
        (["read", "--index", "none"], "no index named 'none'"),
        (["read", "--index", "../x"], "not a name for an index"),
        (["read", "--index", "towns", "--set", "max_pairs=0"], "max_pairs: "),
        (["read", "--index", "towns", "--set", "tok_p=3"], "tok_p: unknown setting"),
        (["read", "--index", "towns", "--export", "a", "--import", "b"], "--export: can't be combined with --import"),
        (["read", "--index", "towns", "--export", "FOLDER/x"], "no knowledge base"),
        (["read", "--index", "towns", "--import", "FOLDER/none"], "no such file\n  check the path"),
    ],
)
def test_wrong_input_is_a_message_and_nothing_is_spent(model, hopgraph, tmp_path, words, says):
    corpus(1)
    server = model(reader)
    code, out, err = hopgraph(*[word.replace("FOLDER", str(tmp_path)) for word in words])
    assert (code, out) == (2, "")
    assert says in err
    assert server.requests == []


# Kills


def _start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "hopgraph", "read", "--index", "towns", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )


def _kill_after(server, process, requests: int, wait: float) -> None:
    deadline = time.time() + 60
    while len(server.requests) < requests and time.time() < deadline:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.005)
    time.sleep(wait)
    process.send_signal(signal.SIGKILL)
    process.wait()


def _committed() -> set[str]:
    base = Pairs(index_folder("towns") / "pairs.sqlite")
    try:
        return base.done()
    finally:
        base.close()


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 6))])
def test_killed_at_random_and_resumed_it_is_the_base_of_an_uninterrupted_reading(model, read, monkeypatch, seed):
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "4")
    chance = random.Random(seed)
    corpus(16)
    server = model(lambda request: Completion(json.dumps(reader(request)), delay=0.1))
    for _ in range(1 if seed == 1 else 3):
        before = len(server.requests)
        _kill_after(server, _start(), before + chance.randint(1, 5), chance.random() * 0.15)
        committed = _committed()
        before = len(server.requests)
    killed = len(server.requests)
    report = read()
    assert report["read"] == 16
    # What was committed when the process died is not read again, and of the rest no more than was in flight is.
    later = set(titles(server)[killed:])
    assert not later & {f"Person {int(key[1:])}" for key in committed}
    repeated = [title for title, count in Counter(titles(server)).items() if count > 1]
    assert len(repeated) <= 4 * (1 if seed == 1 else 3)
    resumed, digest = pairs(), report["digest"]
    server.script = reader
    whole = read("--anew")
    assert whole["digest"] == digest
    assert pairs() == resumed
    assert whole["pairs"] == report["pairs"]
    assert whole["tokens"] == report["tokens"]


def test_a_kill_between_a_passage_s_two_calls_does_not_repeat_the_first(model, read, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "1")
    corpus(1)
    server = model(lambda r: Completion(json.dumps(reader(r)), delay=1.0 if r.node == "coverage_repairer" else 0))
    _kill_after(server, _start("--coverage-repair"), 2, 0.2)
    assert server.nodes() == ["pair_writer", "coverage_repairer"]
    report = read("--coverage-repair")
    assert server.nodes() == ["pair_writer", "coverage_repairer", "coverage_repairer"]
    assert (report["tokens"]["calls"], report["coverage_tokens"]["calls"], report["pairs"]) == (1, 1, 3)


def test_two_readers_of_one_index_do_not_meet(model, hopgraph, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "1")
    corpus(4)
    server = model(lambda request: Completion(json.dumps(reader(request)), delay=1))
    process = _start()
    deadline = time.time() + 60
    while not server.requests and time.time() < deadline:
        time.sleep(0.01)
    code, _, err = hopgraph("read", "--index", "towns")
    process.kill()
    process.wait()
    assert code == 2
    assert "is being read by another process" in err


# Files


def test_a_base_can_be_passed_on_and_taken_over_without_a_model(model, hopgraph, read, tmp_path):
    corpus(4)
    server = model(reader)
    first = read("--coverage-repair")
    file = str(tmp_path / "base.jsonl")
    assert hopgraph("read", "--index", "towns", "--export", file)[0] == 0
    for path in index_folder("towns").glob("pairs.*"):
        path.unlink()
    asked = len(server.requests)
    second = read("--import", file)
    assert len(server.requests) == asked
    assert {**first, "now": 0} == {**second, "now": 0}
    assert open_pairs(open_index("towns")).search_many(["Person 2 born Oslo"], 1)[0][0][0].id == "p02#1"


def test_only_passages_that_the_index_has_like_that_are_taken_over(model, hopgraph, read, tmp_path):
    corpus(3)
    model(reader)
    read()
    file = str(tmp_path / "base.jsonl")
    hopgraph("read", "--index", "towns", "--export", file)
    build_index("towns", [Passage(id="p00", title="Person 0", text="Another text."), *open_index("towns").get(["p01"])])
    for path in index_folder("towns").glob("pairs.*"):
        path.unlink()
    code, out, _ = hopgraph("read", "--index", "towns", "--import", file)
    assert code == 0
    assert "1 of 3 readings imported; 0 already present; 2 skipped: their passages are not in the index" in out
    assert set(pairs()) == {"p01#1", "p01#2"}
    out = hopgraph("read", "--index", "towns", "--import", file)[1]
    assert "0 of 3 readings imported; 1 already present; 2 skipped: their passages are not in the index" in out


def test_a_file_of_another_index_is_refused_and_that_index_named(model, hopgraph, read, tmp_path):
    corpus(3)
    model(reader)
    read()
    file = str(tmp_path / "my base.jsonl")
    hopgraph("read", "--index", "towns", "--export", file)
    build_index("films", [Passage(id="p00", title="X", text="X is a film."), Passage(id="x", title="Y", text="A.")])
    code, out, err = hopgraph("read", "--index", "films", "--import", file)
    assert (code, out) == (2, "")
    assert (
        f"{file}: none of its 3 readings is of a passage of index 'films' as it is now: the text of 1 passages differs"
        in err
    )
    assert f"3 of them belong to index 'towns': `hopgraph read --index towns --import '{file}'`" in err
    assert list(index_folder("films").glob("pairs.*")) == []
    build_index("towns", [Passage(id="a", title="A", text="A.")])
    code, _, err = hopgraph("read", "--index", "towns", "--import", file, "--json")
    assert code == 2
    assert "none of its 3 readings is of a passage of index 'towns'\n" in err
    assert "no index has these passages" in err


def test_a_file_can_t_pass_an_invented_answer_off_as_verbatim(model, hopgraph, read, tmp_path):
    corpus(1)
    model(reader)
    read()
    file = tmp_path / "base.jsonl"
    hopgraph("read", "--index", "towns", "--export", str(file))
    file.write_text(file.read_text().replace('"answer": "Paris"', '"answer": "Atlantis"'))
    hopgraph("read", "--index", "towns", "--set", "verbatim=flag", "--anew", "--limit", "1")
    for path in index_folder("towns").glob("pairs.*"):
        path.unlink()
    read("--import", str(file))
    base = open_pairs(open_index("towns"))
    assert [(pair.answer, pair.verbatim) for pair in base.all_pairs()] == [("Atlantis", False), ("1900", True)]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 1: not JSON"),
        ("[]", "line 1: expected an object"),
        ('{"passage": "p00", "content": "c"}', "field 'pairs' is missing\n  give a file that `hopgraph read"),
        (
            '{"id": "a", "text": "A."}',
            "field 'pairs' is missing\n  these are passages: index them with `hopgraph index`",
        ),
        ('{"passage": "p00", "content": "c", "pairs": [{"question": "x"}]}', "field 'pairs' must be a list"),
        ('{"content": "c", "pairs": []}', "field 'passage' must be of type str"),
        ('{"passage": "p00", "content": "c", "entities": "x", "pairs": []}', "field 'entities' must be of type int"),
        ('{"passage": "p00", "content": "c", "colour": 1, "pairs": []}', "unknown field 'colour'"),
    ],
)
def test_a_malformed_file_is_named_with_line_and_field(model, hopgraph, tmp_path, line, says):
    corpus(1)
    file = tmp_path / "base.jsonl"
    file.write_text(line)
    code, _, err = hopgraph("read", "--index", "towns", "--import", str(file))
    assert code == 2
    assert says in err
    get_settings.cache_clear()
