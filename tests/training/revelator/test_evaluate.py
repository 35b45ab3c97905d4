from __future__ import annotations

import json
import math
import time
from pathlib import Path

import pytest

from inference.errors import InputError
from stores.responses import Responses
from tests.scripted import Completion, Raw, Request
from training.revelator.chat import as_chat
from training.revelator.evaluate import main, report
from training.revelator.examples import Example, Turn

ROUTER = [
    Example("router", "s", q, q, route) for q, route in (("What is up?", "single-step"), ("Who is X?", "complex"))
]
DECOMPOSER = [Example("decomposer", "s", "When and where?", "When and where?", ("When was it?", "Where was it?"))]
REFINER = [Example("refiner", "s", "Where was he born?", "Where was he born?", "Who is he?")]
RELEVANCE = [
    Example("relevance", "s", f"Q{number}?", f"Q{number}?", relevant, title="T", text=f"Text {number}.")
    for number, relevant in enumerate([True, True, False, False])
]
ENDING = [Example("ending", "s", "When?", "When?", True, (Turn("Who?", "He"),))]


def write(folder: Path, examples: list[Example]) -> Path:
    path = folder / "heldout.jsonl"
    path.write_text("".join(json.dumps(as_chat(example)) + "\n" for example in examples))
    return path


def verdict(field: str, probability: float) -> Completion:
    word = "true" if probability >= 0.5 else "false"
    top = {"true": math.log(probability), "false": math.log(1 - probability)}
    head = f'{{"{field}": '
    return Completion(f"{head}{word}}}", tokens=[(head, -1.0), (word, top[word], top), ("}", -0.1)])


def metrics(text: str) -> dict[tuple[str, str], list[str]]:
    """Cells of the report's first table, by skill and metric."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.partition("\n\n")[0].splitlines()]
    return {(row[0], row[1]): row[3:] for row in rows[2:]}


def run(folder: Path, examples: list[Example], *more: str) -> int:
    return main(["--examples", str(write(folder, examples)), "--to", str(folder / "out"), *more])


def test_routes_are_right_or_wrong(tmp_path, model, capsys):
    model(lambda request: {"route": "single_step"})
    assert run(tmp_path, ROUTER) == 0
    assert metrics(capsys.readouterr().out) == {("router", "accuracy"): ["0.500"], ("router", "unreadable"): ["0"]}


def test_sub_questions_count_in_any_order_and_without_signs(tmp_path, model, capsys):
    model(lambda request: {"thought": "Two.", "subquestions": ["where was it", "When was it?"]})
    run(tmp_path, DECOMPOSER)
    found = metrics(capsys.readouterr().out)
    assert [found["decomposer", name] for name in ("exact", "f1", "right number")] == [["1.000"]] * 3


def test_a_question_scores_by_its_words(tmp_path, model, capsys):
    model(lambda request: {"question": "Who was he?"})
    run(tmp_path, REFINER)
    found = metrics(capsys.readouterr().out)
    assert (found["refiner", "exact"], found["refiner", "f1"]) == (["0.000"], ["0.667"])


def test_verdicts_are_taken_by_probability_and_ranked(tmp_path, model, capsys):
    said = {"Text 0.": 0.9, "Text 1.": 0.4, "Text 2.": 0.3, "Text 3.": 0.6}

    def script(request: Request):
        assert request.body["logprobs"]
        return verdict(
            "relevant", next(p for text, p in said.items() if text in request.body["messages"][-1]["content"])
        )

    model(script)
    run(tmp_path, RELEVANCE)
    found = metrics(capsys.readouterr().out)
    assert (found["relevance", "accuracy"], found["relevance", "AUC"]) == (["0.500"], ["0.750"])


def test_an_unreadable_reply_is_wrong_and_counted(tmp_path, model, capsys):
    model(lambda request: "I do not know.")
    run(tmp_path, [*ROUTER, *DECOMPOSER, *REFINER, *RELEVANCE, *ENDING])
    found = metrics(capsys.readouterr().out)
    assert {cells[0] for (_, metric), cells in found.items() if metric not in ("unreadable", "AUC")} == {"0.000"}
    assert found["relevance", "unreadable"] == ["4"]
    assert found["relevance", "AUC"] == ["-"]


def test_before_and_after_stand_side_by_side(tmp_path, model, capsys):
    model(lambda request: {"route": "compound"})
    run(tmp_path, ROUTER, "--to", str(tmp_path / "before"))
    model(lambda request: {"route": "single_step"})
    run(tmp_path, ROUTER, "--before", str(tmp_path / "before"))
    text = capsys.readouterr().out
    assert "| router | accuracy | 2 | 0.000 | 0.500 |" in text
    assert "| router (accuracy) | single-step | s | 1 | 0.000 | 1.000 |" in text
    assert text.endswith((tmp_path / "out/report.md").read_text())


def test_runs_on_other_examples_are_not_compared():
    row = {"id": "a", "skill": "router", "label": "x", "source": "s", "said": "", "readable": True}
    scored = {**row, "probability": None, "scores": {"accuracy": 1.0}}
    with pytest.raises(InputError, match="other examples"):
        report([scored], [{**scored, "id": "b"}])


def test_it_goes_on_where_it_was_cut_off(tmp_path, model, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_LLM_RETRIES", "0")
    monkeypatch.setenv("HOPGRAPH_LLM_CONCURRENCY", "1")

    def play(request):
        if "Who is X?" not in request.prompt:
            return {"route": "complex"}
        stored = Responses(tmp_path / "out" / "replies.sqlite")
        while not stored._execute("SELECT key FROM responses", ()):  # the failure must not overtake the other reply
            time.sleep(0.01)
        return Raw(500, "{}")

    model(play)
    assert run(tmp_path, ROUTER) == 3
    again = model(lambda request: {"route": "complex"})
    assert run(tmp_path, ROUTER) == 0
    assert len(again.requests) == 1


def test_skills_can_be_chosen_and_limited(tmp_path, model):
    server = model(lambda request: {"relevant": True})
    run(tmp_path, [*ROUTER, *RELEVANCE], "--skill", "relevance", "--limit", "3")
    assert len(server.requests) == 3
