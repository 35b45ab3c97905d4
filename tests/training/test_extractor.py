from __future__ import annotations

from pathlib import Path

import pytest

import inference.heads.extractor
import inference.heads.npz
import inference.heads.trunk
from inference.errors import InputError
from tests.training.conftest import write
from training.extractor import EXTRACTORS, main
from training.extractor_data import Example, examples, shortened, training_examples


def row(answer: str, start: int, context: str = "Who is it?\nIt is Ada.\n\nWhen, Ada?\nIn 1815, ada said.") -> dict:
    return {"question": "Who?", "context": context, "answers": {"text": [answer], "answer_start": [start]}}


def test_an_answer_that_is_not_where_the_row_says_is_looked_for(tmp_path: Path):
    path = tmp_path / "rows.jsonl.gz"
    write(path, [row("Ada", 17), row("Ada", 3), row("ADA", 50), row("Eve", 5), row("When", -1)])
    found = examples(path)
    assert [(one.answer, one.start) for one in found] == [
        ("Ada", 17),
        ("Ada", 17),
        ("ada", 43),
        ("Eve", -1),
        ("When", -1),
    ]


@pytest.mark.parametrize("answers", [None, {}, {"text": [], "answer_start": []}, {"text": [3], "answer_start": [1]}])
def test_a_row_without_an_answer_is_named(tmp_path: Path, answers):
    path = tmp_path / "rows.jsonl.gz"
    write(path, [{**row("Ada", 17), "answers": answers}])
    with pytest.raises(InputError, match=r"rows\.jsonl\.gz, line 1: field 'answers'"):
        examples(path)


def test_shortened_answers_are_phrases_and_the_right_one_is_the_answer():
    context = (
        "When was Emma published?\nEmma was published in December 1815.\n\n"
        "Who wrote Emma?\nEmma was written by the novelist Jane Austen in 1814."
    )
    short = shortened(Example("Who is Emma's author?", context, "Jane Austen", context.index("Jane")))
    assert short.context == "When was Emma published?\nDecember 1815\n\nWho wrote Emma?\nJane Austen"
    assert short.context[short.start :] == "Jane Austen"


def test_training_has_every_row_twice_and_none_that_is_measured_on(small_data: Path):
    path = small_data / "train/extractor.train.jsonl.gz"
    kept, left_out = training_examples(small_data)
    rows = examples(path)
    assert len(kept) == 2 * len(rows)
    assert not left_out
    for one in kept:
        assert one.context[one.start : one.start + len(one.answer)] == one.answer
    measured = examples(small_data / "train/extractor.valid.jsonl.gz")
    write(path, [row("Eve", 5), {**row("Ada", 17), "question": measured[0].question.upper()}, row("Ada", 17)])
    kept, left_out = training_examples(small_data)
    assert len(kept) == 2
    assert left_out == {"without the answer": 1, "in the validation file": 1}


def test_the_baselines_are_what_they_say():
    context = "When was Emma out?\nEmma was out in 1815.\n\nWho wrote Emma?\nEmma was written by Jane Austen."
    example = Example("Who wrote it?", context, "Jane Austen", context.index("Jane"))
    said = [extract(example) for name, extract in EXTRACTORS.items() if name != "**this extractor**"]
    whole = "Emma was written by Jane Austen."
    assert said == ["Emma was out in 1815.", whole, "Jane Austen", whole]


def test_evaluation_of_the_shipped_extractor_runs_without_torch(small_data: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["--data", str(small_data), "--evaluate"]) == 0
    printed = capsys.readouterr().out
    assert "| **this extractor** | sentences | 4 |" in printed
    assert "| **this extractor** | phrases | 4 |" in printed
    assert "ms of CPU time per question" in printed


def test_a_missing_data_folder_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["--data", str(tmp_path / "nowhere"), "--evaluate"]) == 2
    assert "nowhere" in capsys.readouterr().err


@pytest.mark.slow
def test_training_on_a_few_rows_gives_weights_that_the_extractor_runs(
    small_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("torch", reason="training needs torch: pip install -e '.[train]'")
    to = tmp_path / "extractor.npz"
    assert main(["--data", str(small_data), "--to", str(to), "--epochs", "70"]) == 0
    assert to.stat().st_size < 6_000_000

    learnt = examples(small_data / "train/extractor.train.jsonl.gz")
    inference.heads.trunk.get_trunk()
    monkeypatch.setattr(inference.heads.npz, "files", lambda _: tmp_path)
    inference.heads.extractor._head.cache_clear()
    try:
        found = inference.heads.extractor.extract_answers([(one.question, one.context) for one in learnt])
    finally:
        inference.heads.extractor._head.cache_clear()
    right = [one.answer == example.answer for one, example in zip(found, learnt, strict=True)]
    assert sum(right) > 0.8 * len(right)
