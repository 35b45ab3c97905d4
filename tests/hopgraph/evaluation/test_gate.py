"""The quality gate of `hopgraph eval`: bounds of means, the fall from an earlier run, its exit code and its line."""

from __future__ import annotations

import json

import pytest

from tests.hopgraph.evaluation.conftest import LINES, row
from tests.scripted import Completion


@pytest.fixture
def run(hopgraph, model, questions, tmp_path):
    """Runs an evaluation of 12 questions of which the first `right` are answered rightly; gives code, JSON, stderr."""
    rows = [row(n, answers=["Paris"]) for n in range(12)]

    def start(right: int, *options, out="run", asked=rows, method="prism"):
        def play(request):
            numbers = [n for n in range(12) if f"number {n}?" in request.prompt]
            answer = "Paris" if numbers and numbers[-1] < right else "Oslo"
            return {**LINES, "generator": {"answer": answer}}[request.node]

        model(play)
        words = ("-m", method, "-q", questions(asked), "--contexts", "--out", tmp_path / out, "--json", *options)
        code, text, err = hopgraph("eval", *words)
        return code, json.loads(text) if text else None, err

    return start


@pytest.mark.parametrize(
    ("bound", "code"),
    [("em=0.5", 0), ("em=.51", 1), ("f1=0.5", 0), ("EM=1", 1), ("kept P=1", 0), ("calls=6", 0), ("calls=5.9", 1)],
)
def test_a_mean_has_to_reach_its_bound(run, bound, code):
    found, summary, err = run(6, "--fail-under", bound)
    assert found == code
    assert [check["passed"] for check in summary["gate"]] == [not code]
    assert ("quality gate: 1 check passed" in err) == (not code)


def test_one_line_says_what_fell(run):
    code, summary, err = run(3, "--fail-under", "em=0.5", "--fail-under", "f1=0.2", "--fail-under", "calls=1")
    lines = [line for line in err.splitlines() if "quality gate" in line]
    assert code == 1
    assert lines == ["hopgraph: quality gate failed: prism: EM 25.0, below 50.0; prism: calls 6.0, above 1.0"]
    assert [check["passed"] for check in summary["gate"]] == [False, True, False]


def test_a_significant_fall_from_an_earlier_run_fails(run, tmp_path):
    assert run(12, out="before")[0] == 0
    code, summary, err = run(4, "--against", str(tmp_path / "before"), "--max-drop", "2")
    assert code == 1
    assert f"prism: EM 66.7 below {tmp_path / 'before'}, 2.0 allowed (95% interval" in err
    em = summary["gate"][0]
    assert em["value"] == pytest.approx(8 / 12)
    assert em["comparison"]["p"] == pytest.approx(2 / 2**8)
    code, _, _ = run(4, "--against", str(tmp_path / "before"), "--max-drop", "67", "--max-drop", "calls=0", out="again")
    assert code == 0, "as much as is allowed"


def test_a_fall_that_may_be_chance_passes(run, tmp_path):
    run(12, out="before")
    code, summary, _ = run(8, "--against", str(tmp_path / "before"))
    assert summary["gate"][0]["comparison"]["p"] > 0.05
    assert summary["gate"][0]["value"] == pytest.approx(4 / 12)
    assert code == 0


def test_a_gain_passes_and_the_other_way_round_fails(run, tmp_path):
    run(2, out="before")
    assert run(12, "--against", str(tmp_path / "before"), out="better")[0] == 0
    assert run(2, "--against", str(tmp_path / "better"), out="worse")[0] == 1


def test_a_finished_run_is_checked_again_without_a_call(run, hopgraph, tmp_path):
    run(6)
    code, _, err = hopgraph("eval", "--resume", tmp_path / "run", "--fail-under", "em=0.9")
    assert code == 1
    assert "EM 50.0, below 90.0" in err


def test_only_shared_questions_are_compared_and_a_note_counts_them(run, tmp_path):
    run(12, out="before", asked=[row(n, answers=["Paris"]) for n in range(8)])
    code, summary, err = run(0, "--against", str(tmp_path / "before"))
    assert code == 1
    assert "only the 8 questions of both runs are compared" in err
    assert summary["gate"][0]["comparison"]["n"] == 8


def test_endpoint_failures_end_with_their_own_code(run, hopgraph, model, questions, tmp_path, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "0")
    model(lambda request: Completion("", delay=9.0))
    words = ("-m", "prism", "-q", questions([row(1)]), "--contexts", "--set", "run_timeout=1", "--fail-under", "em=0.5")
    code, _, err = hopgraph("eval", *words, "--out", tmp_path / "run")
    assert code == 3
    assert "quality gate" not in err, "questions are missing: nothing can be said of the mean"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--fail-under", "f1"), "--fail-under f1: must be METRIC=NUMBER"),
        (("--fail-under", "token=5"), "did you mean 'tokens'?"),
        (("--fail-under", "f1=50"), "f1 is 0 to 1"),
        (("--fail-under", "f1=nan"), "'nan' is not a number"),
        (("--fail-under", "em=half"), "'half' is not a number"),
        (("--max-drop", "2"), "needs --against"),
        (("--against", "{tmp}/nothing"), "no evaluation run found"),
        (("--against", "{tmp}/before", "--max-drop", "-1"), "must not be negative"),
        (("--against", "{tmp}/before", "--max-drop", "two"), "'two' is not a number"),
        (("--against", "{tmp}/before", "--max-drop", "efr=1"), "efr has no value per question"),
        (("--against", "{tmp}/other"), "no questions in common"),
        (("--against", "{tmp}/edited"), "question q1 differs from this run's"),
        (("--against", "{tmp}/method"), "has no results of prism"),
        (("--fail-under", "entity_accuracy=0.5"), "is there no gold?"),
        (("--against", "{tmp}/before", "--max-drop", "fact_f1=1"), "is there no gold?"),
    ],
)
def test_a_gate_that_can_not_be_is_refused(run, tmp_path, options, said):
    one = [row(1, answers=["Paris"])]
    for folder, asked in (("before", one), ("other", [row(1, id="x")]), ("edited", [row(1, question="Where?")])):
        run(12, out=folder, asked=asked)
    run(12, out="method", asked=one, method="no_retrieval")
    code, _, err = run(12, *(option.format(tmp=tmp_path) for option in options), asked=one)
    assert code == 2
    assert said in err
