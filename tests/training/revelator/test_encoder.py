from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import inference.heads.npz
import inference.heads.revelator
import inference.heads.trunk
from inference.heads.revelator import ROUTES
from inference.limits import UNKNOWN
from tests.training.conftest import write
from tests.training.revelator.conftest import BOOKS, BORN
from training.revelator.encoder import main
from training.revelator.encoder_data import (
    SKILLS,
    dev_chains,
    divided_examples,
    is_for_calibration,
    label_of,
)
from training.revelator.examples import Example, Turn, is_held_out
from training.revelator.sources import all_examples

EMMA = BORN.format("Emma")


@pytest.fixture
def with_dev(data: Path) -> Path:
    """The same folder with chains among the dev questions."""
    steps = [
        {"question": "Brand >> author", "answer": "Ibsen"},
        {"question": "#1 >> place of birth", "answer": "Skien"},
    ]
    row = {"question": BORN.format("Brand"), "hops": 2, "type": "compositional", "decomposition": steps}
    for name in ("musique", "2wikimultihopqa"):
        write(data / name / "questions.jsonl.gz", [row, {"question": "Why?", "decomposition": [{"question": "What?"}]}])
    return data


@pytest.fixture
def examples(data: Path) -> list[Example]:
    return [example for part in divided_examples(data) for example in part]


def test_the_parts_share_no_question_and_the_held_out_one_is_the_one_of_the_tuned_models(data: Path):
    known, calibration, held = divided_examples(data)
    roots = [{example.root for example in part} for part in (known, calibration, held)]
    assert all(roots)
    assert not roots[0] & roots[1]
    assert not (roots[0] | roots[1]) & roots[2]
    assert all(map(is_held_out, roots[2]))
    assert not any(map(is_held_out, roots[0] | roots[1]))
    assert all(map(is_for_calibration, roots[1]))
    assert {example.skill for example in known} == set(SKILLS)


def test_labels_are_routes_and_yes_or_no():
    assert ROUTES[label_of(Example("router", "", "", "", "single-step"))] == "single_step"
    assert label_of(Example("ending", "", "", "", True)) == 1
    assert label_of(Example("relevance", "", "", "", False)) == 0


def test_whole_questions_are_judged_with_all_their_paragraphs(examples: list[Example]):
    own = {e.title: e.target for e in examples if e.skill == "relevance" and e.question == EMMA}
    assert own == {"Emma": True, "Mr Emma": True, "Books": False, "Trains": False}


def test_a_chain_ends_with_its_last_answer_and_not_without_one(examples: list[Example]):
    found = {
        e.turns: e.target for book in BOOKS for e in examples if e.skill == "ending" and e.question == BORN.format(book)
    }
    first, second = Turn("Who wrote Emma?", "Mr Emma"), Turn("Where was Mr Emma born?", "Town of Emma")
    assert found[(first,)] is False
    assert found[(first, second)] is True
    without = [turns for turns, ended in found.items() if len({turn.question for turn in turns}) == 2 and not ended]
    assert without
    assert {turns[-1].answer for turns in without} == {UNKNOWN}
    first_unknown = replace(first, answer=UNKNOWN)
    assert found[(first_unknown,)] is False


def test_a_hop_that_was_asked_again_does_not_keep_a_chain_from_ending(examples: list[Example]):
    again = [e for e in examples if e.skill == "ending" and e.source.endswith("asked again")]
    assert {e.target for e in again} == {True, False}
    for example in again:
        *_, unknown, known = example.turns
        assert (unknown.answer, unknown.question) == (UNKNOWN, known.question)


def test_more_chains_and_routes_than_a_language_model_is_tuned_on(examples: list[Example]):
    spouse = [e for e in examples if e.skill == "ending" and e.question.startswith("Who is the spouse of the director")]
    assert Turn("Who is the spouse of Mr Jaws?", "Mrs Jaws") in {turn for e in spouse for turn in e.turns}
    routes = {e.question: e.target for e in examples if e.skill == "router"}
    assert routes["Who read Emma"] == routes["When did Emma end?"] == "single-step"
    assert routes["Which other book has the printer of Emma made?"] == "complex"


def test_one_hop_questions_are_chains_of_one_step(data: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("training.revelator.encoder_data._ONE_STEP", 1)
    rows = [
        e
        for part in divided_examples(data)
        for e in part
        if e.skill == "ending" and e.question.endswith("Bath founded?")
    ]
    assert {(e.turns[0].question, e.turns[0].answer == UNKNOWN, e.target) for e in rows} == {
        ("When was Bath founded?", False, True),
        ("When was Bath founded?", True, False),
    }


def test_dev_chains_are_whole_or_broken_off(with_dev: Path):
    broken, whole = dev_chains(with_dev, "2wikimultihopqa")
    assert broken.turns == (Turn("Who wrote Brand?", "Ibsen"),)
    assert whole.turns[1:] == (Turn("Where was Ibsen born?", "Skien"),)
    assert (broken.target, whole.target, whole.source) == (False, True, "2wikimultihopqa, compositional")
    (unknown,) = dev_chains(with_dev, "2wikimultihopqa", unknown=True)
    assert unknown.turns == (whole.turns[0], replace(whole.turns[1], answer=UNKNOWN))
    assert unknown.target is False


def test_evaluation_of_the_shipped_encoder_runs_without_torch(with_dev: Path, capsys: pytest.CaptureFixture[str]):
    names = [f"Name {n}" for n in range(60)]
    rows = [{"question": f"Who is {n}?", "title": "P", "context": f"{n} is Bo.", "answer": "Bo"} for n in names]
    write(with_dev / "train/single_span_qa.train.jsonl.gz", [{**row, "source": "squad1.1-train"} for row in rows])
    assert main(["--data", str(with_dev), "--evaluate"]) == 0
    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if line.startswith("#")] == [
        "#### Routes",
        "#### Relevance",
        "#### Ending",
        "#### Ending, the last answer unknown",
    ]
    assert "| 2wikimultihopqa, dev: **this encoder** | 2 | 1 |" in printed


def test_the_encoder_stands_beside_a_prompted_model_on_the_same_rows(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    rows = [
        {"id": e.id, "skill": e.skill, "scores": {"accuracy": 0.5}, "probability": 0.9 if e.target is True else 0.1}
        for e in divided_examples(data)[2]
        if e.id in {example.id for example in all_examples(data)[1]}
    ]
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["--data", str(data), "--beside", str(tmp_path)]) == 0
    lines = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert {name.strip("| "): [rest[0], rest[1]] for name, *rest in lines} == {
        skill: [str(sum(row["skill"] == skill for row in rows)), "0.500"] for skill in SKILLS
    }
    assert [line[3] for line in lines] == ["-", "1.000", "1.000"]
    (tmp_path / "results.jsonl").write_text(json.dumps({**rows[0], "id": "another"}))
    assert main(["--data", str(data), "--beside", str(tmp_path)]) == 2
    assert "1 of its rows are not in" in capsys.readouterr().err


def test_a_missing_data_folder_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["--data", str(tmp_path / "nowhere"), "--evaluate"]) == 2
    assert "nowhere" in capsys.readouterr().err


@pytest.mark.slow
def test_training_on_a_few_rows_gives_weights_that_the_revelator_runs(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("torch", reason="training needs torch: pip install -e '.[train]'")
    to = tmp_path / "revelator.npz"
    assert main(["--data", str(data), "--to", str(to), "--epochs", "20"]) == 0
    assert to.stat().st_size < 6_000_000

    inference.heads.trunk.get_trunk()
    monkeypatch.setattr(inference.heads.npz, "files", lambda _: tmp_path)
    inference.heads.revelator._head.cache_clear()
    chain = [("Who wrote Brand?", "Mr Brand"), ("Where was Mr Brand born?", "Town of Brand")]
    try:
        found = inference.heads.revelator.route(["who wrote Brand?", BORN.format("Brand")])
        assert [one.route for one in found] == ["single_step", "complex"]
        texts = ["Brand\nBrand is a book by Mr Brand.", "Trains\nA train is a row of carriages."]
        good, bad = inference.heads.revelator.relevance(BORN.format("Brand"), texts)
        assert good > bad
        ended = inference.heads.revelator.ending(BORN.format("Brand"), chain)
        assert ended > inference.heads.revelator.ending(BORN.format("Brand"), chain[:1])
    finally:
        inference.heads.revelator._head.cache_clear()


@pytest.mark.slow
def test_calibration_sets_overconfident_scores_right():
    torch = pytest.importorskip("torch", reason="training needs torch: pip install -e '.[train]'")
    from inference.heads.trunk import get_trunk, untrained_layers
    from training.revelator.encoder_model import RevelatorModel, _calibrate, _Rows

    torch.manual_seed(0)
    model = RevelatorModel(untrained_layers(), ["relevance"]).eval()
    with torch.no_grad():  # says "certainly" whatever it is given
        model.heads["relevance"].scores.weight.zero_()
        model.heads["relevance"].scores.bias.fill_(9)
    rows = [Example("relevance", "", f"q{n}", f"question {n}", n % 4 == 0, text="A text.") for n in range(40)]
    unlike = torch.zeros(len(rows))
    _calibrate(model, _Rows.of(rows, get_trunk()), unlike)
    bias = model.heads["relevance"].scores.bias.item()
    assert 1 / (1 + np.exp(-bias)) == pytest.approx(0.25, abs=0.02)
    assert model.likeness.item() == 0


@pytest.mark.slow
def test_likeness_weighs_what_it_tells():
    torch = pytest.importorskip("torch", reason="training needs torch: pip install -e '.[train]'")
    from inference.heads.trunk import get_trunk, untrained_layers
    from training.revelator.encoder_model import RevelatorModel, _calibrate, _Rows

    torch.manual_seed(0)
    model = RevelatorModel(untrained_layers(), ["relevance"]).eval()
    rows = [Example("relevance", "", f"q{n}", f"question {n}", n % 4 < 2, text="A text.") for n in range(40)]
    # Three out of four times the alike passage is the relevant one: log-odds of ln 3 each way.
    alike = [0.5 if row.target == (n % 8 < 6) else -0.5 for n, row in enumerate(rows)]
    _calibrate(model, _Rows.of(rows, get_trunk()), torch.tensor(alike))
    assert model.likeness.item() > 1
