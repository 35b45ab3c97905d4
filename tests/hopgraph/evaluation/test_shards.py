"""`hopgraph eval --shard` and `--merge`: several processes answer what one process would."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from hopgraph.evaluation.shards import Shard
from inference.errors import InputError
from tests.hopgraph.evaluation.conftest import LINES, comparable, results, row
from tests.scripted import Raw


def play(request):
    return LINES[request.node]


@pytest.fixture
def shards(hopgraph, model, questions, tmp_path):
    """Runs shards of seven questions with two methods; gives their folders."""

    def run(count=3, only=None, words=()):
        asked = questions([row(n) for n in range(7)])
        folders = []
        for number in only or range(1, count + 1):
            folders.append(tmp_path / f"part-{number}")
            code, _, err = hopgraph(
                "eval", "-m", "prism,no_retrieval", "-q", asked, "--contexts", *words,
                "--shard", f"{number}/{count}", "--out", folders[-1],
            )  # fmt: skip
            assert code == 0, err
        return folders

    return run


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_every_question_is_in_one_shard_and_shards_differ_by_one_question(count):
    parts = [Shard(number, count).part(range(7)) for number in range(1, count + 1)]
    assert sorted(number for part in parts for number in part) == list(range(7))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "1/0", "-1/3", "a/b", "1/3/5", "1.5/3", "٣/٤"])
def test_a_malformed_shard_is_refused(text):
    with pytest.raises(InputError, match="--shard"):
        Shard.parse(text)


def test_merged_shards_have_the_results_of_one_process(shards, hopgraph, model, questions, tmp_path):
    server = model(play)
    parts = shards()
    calls = len(server.requests)
    code, out, err = hopgraph("eval", "--merge", *reversed(parts), "--out", tmp_path / "merged", "--json")
    assert code == 0, err
    assert len(server.requests) == calls
    asked = questions([row(n) for n in range(7)])
    words = ("eval", "-m", "prism,no_retrieval", "-q", asked, "--contexts", "--out", tmp_path / "whole", "--json")
    code, expected, _ = hopgraph(*words)
    assert code == 0
    assert len(server.requests) == 2 * calls
    found, whole = results(tmp_path / "merged"), results(tmp_path / "whole")
    assert {key: comparable(line) for key, line in found.items()} == {
        key: comparable(line) for key, line in whole.items()
    }
    merged, single = json.loads(out), json.loads(expected)
    for variant in (*merged["variants"], *single["variants"]):
        variant["costs"].pop("seconds")
    for pair in (*merged["comparisons"], *single["comparisons"]):
        pair["metrics"].pop("seconds", None)
    assert merged["variants"] == single["variants"]
    assert merged["comparisons"] == single["comparisons"]
    assert merged["run"]["questions"] == 7
    abouts = [json.loads((tmp_path / name / "run.json").read_text()) for name in ("merged", "whole")]
    assert abouts[0]["identity"] == abouts[1]["identity"]


def test_a_shard_answers_its_questions_only(shards, hopgraph, model, tmp_path):
    model(play)
    (part,) = shards(only=[2])
    assert {id for _, id in results(part)} == {"q1", "q4"}
    code, out, _ = hopgraph("eval", "--resume", part, "--json")
    run = json.loads(out)["run"]
    assert (code, run["questions"], run["shard"]) == (0, 2, "2/3")
    (listed,) = json.loads(hopgraph("list", "runs", tmp_path, "--json")[1])["runs"]
    assert (listed["done"], listed["total"], listed["state"]) == (4, 4, "complete")
    assert hopgraph("report", part)[0] == 0


def test_a_merged_run_is_reported_and_its_threads_are_traced(shards, hopgraph, model, tmp_path):
    model(play)
    parts = shards()
    merged = tmp_path / "merged"
    assert hopgraph("eval", "--merge", *parts, "--out", merged)[0] == 0
    assert hopgraph("report", merged)[0] == 0
    thread = results(merged)["prism", "q4"]["thread"]
    code, _, err = hopgraph("trace", thread, "--run", merged, "--out", tmp_path / "trace.html")
    assert code == 0, err
    assert "number 4?" in (tmp_path / "trace.html").read_text()
    shutil.rmtree(parts[1])
    code, _, err = hopgraph("trace", thread, "--run", merged)
    assert code == 2
    assert f"its shard {parts[1]} is missing" in err


def test_verdicts_are_merged_and_judging_goes_on(shards, hopgraph, model, tmp_path):
    server = model(lambda request: {"correct": "yes"} if request.node == "correctness_judge" else play(request))
    parts = shards()
    assert hopgraph("eval", "--resume", parts[0], "--judge")[0] == 0
    before = server.nodes().count("correctness_judge")
    assert before == 6
    code, out, _ = hopgraph("eval", "--merge", *parts, "--out", tmp_path / "merged", "--judge", "--json")
    assert code == 0
    assert server.nodes().count("correctness_judge") == 14
    assert [variant["metrics"]["judged"]["mean"] for variant in json.loads(out)["variants"]] == [1.0, 1.0]


def test_two_judges_are_not_merged(shards, hopgraph, model, monkeypatch, tmp_path):
    model(lambda request: {"correct": "yes"} if request.node == "correctness_judge" else play(request))
    parts = shards(count=2)
    for part, judge in zip(parts, ("one", "other"), strict=True):
        assert hopgraph("eval", "--resume", part, "--judge")[0] == 0
        path = part / "judgements.jsonl"
        path.write_text(path.read_text().replace('"model": "scripted"', f'"model": "{judge}"'))
    code, _, err = hopgraph("eval", "--merge", *parts, "--out", tmp_path / "merged")
    assert code == 2
    assert "by two judges: models one and other" in err
    assert not (tmp_path / "merged").exists()


def test_shards_that_do_not_fit_are_not_merged(shards, hopgraph, model, tmp_path):
    model(play)
    parts = shards()

    def merge(*folders):
        code, out, err = hopgraph("eval", "--merge", *folders, "--out", tmp_path / "merged")
        assert (code, out) == (2, "")
        assert not (tmp_path / "merged").exists()
        return err

    assert "1 of 3 shards are missing: 2/3" in merge(parts[0], parts[2])
    assert "are both shard 1/3" in merge(parts[0], parts[0], *parts)
    assert "no folders given" in merge()
    assert "nowhere: no evaluation run found" in merge(tmp_path / "nowhere")
    lines = (parts[1] / "results.jsonl").read_text().splitlines(keepends=True)
    (parts[1] / "results.jsonl").write_text("".join(lines[1:]))
    err = merge(*parts)
    assert f"shard 2/3 in {parts[1]} has 3 of 4 results, 1 to do" in err
    assert f"--resume {parts[1]}" in err
    (parts[1] / "results.jsonl").write_text("".join([*lines, lines[0].replace('"id": "q', '"id": "other')]))
    assert "has a result of another run" in merge(*parts)
    (parts[1] / "results.jsonl").write_text("".join(lines))
    written = (parts[0] / "questions.jsonl").read_text()
    (parts[0] / "questions.jsonl").write_text(written.replace("number 3?", "number 33?"))
    assert "questions.jsonl has changed" in merge(*parts)


def test_shards_of_other_settings_are_not_merged(shards, hopgraph, model, questions, tmp_path):
    model(play)
    parts = shards(count=2)
    shutil.rmtree(parts[1])
    shards(count=2, only=[2], words=("--set", "max_tokens=100"))
    code, _, err = hopgraph("eval", "--merge", *parts, "--out", tmp_path / "merged")
    assert code == 2
    assert f"{parts[1]} is of another run than {parts[0]}: set.max_tokens: none, now 100" in err
    whole = tmp_path / "whole"
    assert hopgraph("eval", "-m", "no_retrieval", "-q", questions([row(1)]), "--out", whole)[0] == 0
    code, _, err = hopgraph("eval", "--merge", whole, "--out", tmp_path / "merged")
    assert code == 2
    assert f"{whole} is not a shard" in err


def test_another_shard_does_not_go_on_in_a_folder(shards, hopgraph, model, questions):
    model(play)
    (part,) = shards(only=[1])
    words = ("eval", "-m", "prism,no_retrieval", "-q", questions([row(n) for n in range(7)]), "--contexts")
    for more, said in ((("--shard", "2/3"), 'shard: "1/3", now "2/3"'), ((), 'shard: "1/3", now none')):
        code, _, err = hopgraph(*words, *more, "--out", part)
        assert code == 2
        assert said in err
    assert hopgraph(*words, "--shard", "1/3", "--out", part)[0] == 0


def test_a_killed_shard_goes_on_without_repeating_calls(shards, hopgraph, model, questions, tmp_path, monkeypatch):
    server = model(play)
    whole = shards(count=2)
    calls = len(server.requests)
    cut = tmp_path / "cut"
    asked = questions([row(n) for n in range(7)])
    words = ("eval", "-m", "prism,no_retrieval", "-q", asked, "--contexts", "--shard", "1/2", "--out", cut)
    process = None

    def killing(request):
        if process and len(server.requests) == calls + 9:
            process.kill()
        return play(request)

    server.script = killing
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "1")
    process = subprocess.Popen([sys.executable, "-m", "hopgraph", *map(str, words)], stderr=subprocess.DEVNULL)
    assert process.wait(60) == -9
    server.script = play
    assert hopgraph("eval", "--resume", cut)[0] == 0
    expected = results(whole[0])
    assert {k: comparable(v) for k, v in results(cut).items()} == {k: comparable(v) for k, v in expected.items()}
    # Repeated: the call in flight, and perhaps one whose reply was not yet committed.
    assert len(server.requests) - calls <= sum(line["cost"]["calls"] for line in expected.values()) + 2
    assert hopgraph("eval", "--merge", cut, whole[1], "--out", tmp_path / "merged")[0] == 0


def test_failed_questions_are_merged_and_said(shards, hopgraph, model, monkeypatch, tmp_path):
    server = model(play)
    monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "0")
    parts = shards(count=2, only=[1])
    server.script = lambda request: Raw(503, "{}") if "number 1?" in request.prompt else play(request)
    with pytest.raises(AssertionError, match="failed for external reasons"):
        shards(count=2, only=[2])
    parts.append(tmp_path / "part-2")
    code, out, err = hopgraph("eval", "--merge", *parts, "--out", tmp_path / "first", "--json")
    assert code == 3
    assert "2 questions failed for external reasons" in err
    assert "of its shards, then `--merge` into a new folder" in err
    server.script = play
    assert hopgraph("eval", "--resume", tmp_path / "first")[0] == 3
    assert hopgraph("eval", "--resume", parts[1])[0] == 0
    code, out, _ = hopgraph("eval", "--merge", *parts, "--out", tmp_path / "second", "--json")
    assert (code, json.loads(out)["variants"][0]["failed"]) == (0, 0)


def test_wrong_options_are_named(shards, hopgraph, model, questions, tmp_path):
    model(play)
    (part,) = shards(count=1)
    out, asked = tmp_path / "out", ("-m", "prism", "-q", questions([row(n) for n in range(7)]))
    for words, message in (
        (("--merge", part, "--shard", "1/2", "--out", out), "--merge: can't be combined with --shard"),
        (("--merge", part, "--resume", part, "--out", out), "--merge: can't be combined with --resume"),
        (("--merge", part), "--out: is missing"),
        ((part, *asked, "--out", out), "part-1: unexpected argument"),
        ((*asked, "--shard", "3", "--out", out), "--shard '3': must be NUMBER/COUNT"),
        ((*asked, "--shard", "9/9", "--out", out), "--shard 9/9: there are only 7 questions"),
        ((*asked, "--shard", "1/2", "--out", out, "--fail-under", "f1=0.1"), "a quality gate"),
        (("--resume", part, "--fail-under", "f1=0.1"), "a quality gate"),
        (("--resume", part, "--shard", "1/1"), "--resume: can't be combined with --shard"),
        (("--merge", part, "--out", part), "part-1 exists"),
    ):
        code, text, err = hopgraph("eval", *words)
        assert (code, text) == (2, "")
        assert message in err
        assert not out.exists()


def test_a_quality_gate_checks_the_merged_run(shards, hopgraph, model, tmp_path):
    model(play)
    parts = shards(count=2)
    for bound, expected in (("em=0.9", 1), ("em=0.1", 0)):
        words = ("--merge", *parts, "--out", tmp_path / bound, "--fail-under", bound)
        assert hopgraph("eval", *words)[0] == expected
