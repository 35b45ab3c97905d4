from __future__ import annotations

from pathlib import Path

import pytest

import inference.heads.npz
import inference.heads.rewriter
import inference.heads.trunk
from inference.errors import InputError
from tests.training.conftest import write
from training.rewriter import REWRITERS, main
from training.rewriter_data import Example, examples, gold_edit, training_examples


@pytest.mark.parametrize(
    ("question", "answer", "rewritten", "replaced"),
    [
        ("Where was he born?", "Ada Bell", "Where was Ada Bell born?", "he"),
        ("What is his job?", "Ada Bell", "What is Ada Bell's job?", "his"),
        ("Who sang in this opera?", "Aida", "Who sang in 'Aida'?", "this opera"),
        ("Where is the town that burnt?", "Celle", "Where is Celle?", "the town that burnt"),
        (
            "Where is the river that rose?",
            "Elbe",
            "Where is the Elbe?",
            "the river that rose",
        ),  # "the" goes and comes back
        ("Who lives in this area?", "Celle", "Who lives in Celle?", "this area"),  # "in" stays
        ("WHO is he?", "ADA", "WHO is Ada?", "he"),  # as the rewritten one has it in all but case
    ],
)
def test_an_edit_makes_of_the_question_what_it_is_rewritten_to(question, answer, rewritten, replaced):
    edit = gold_edit(Example(question, answer, rewritten))
    assert edit is not None
    assert question[edit.start : edit.end] == replaced
    assert edit.applied(question, answer).lower() == rewritten.lower()


@pytest.mark.parametrize(
    ("question", "answer", "rewritten"),
    [
        ("Did she do it?", "Ada", "Was it Ada who did it?"),
        ("Who is he?", "Ada", "Who is she?"),
        ("Is there a theme?", "me", "Is there a theme?"),
        ("Where is the hero?", "Ada", "Where is the Adaro?"),  # not whole words
    ],
)
def test_what_no_single_edit_makes_has_none(question: str, answer: str, rewritten: str):
    edit = gold_edit(Example(question, answer, rewritten))
    assert edit is None or question[edit.start : edit.end] == answer


def test_training_leaves_out_what_it_is_measured_on_and_what_no_edit_makes(small_data: Path):
    kept, left_out = training_examples(small_data)
    assert len(kept) == 18
    assert left_out == {"that no single edit makes": 1}
    path = small_data / "train/rewriter.train.jsonl.gz"
    (first, *_) = examples(small_data / "train/rewriter.valid.jsonl.gz")
    write(path, [{"input": f"Q: {first.question.upper()} | prev_answer: {first.answer}", "output": "x"}])
    assert training_examples(small_data) == ([], {"in the validation file": 1})


def test_a_malformed_row_is_named(tmp_path: Path):
    write(tmp_path / "rows.jsonl.gz", [{"input": "Q: Who?", "output": "Who?"}])
    with pytest.raises(InputError, match=r"rows\.jsonl\.gz, line 1: field 'input' must be"):
        examples(tmp_path / "rows.jsonl.gz")


def test_the_baselines_are_what_they_say():
    example = Example("What was his job in this town?", "Ada", "What was Ada's job in this town?")
    said = [rewrite(example) for name, rewrite in REWRITERS.items() if name != "**this rewriter**"]
    assert said == [
        "What was his job in this town?",
        "What was his job in this town? Ada",
        "What was Ada's job in this town?",
        "What was Ada's job in this town?",
    ]


def test_evaluation_of_the_shipped_rewriter_runs_without_torch(small_data: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["--data", str(small_data), "--evaluate"]) == 0
    printed = capsys.readouterr().out
    assert "| **this rewriter** | all | 6 |" in printed
    assert "ms of CPU time per sub-question" in printed


@pytest.mark.slow
def test_training_on_a_few_rows_gives_weights_that_the_rewriter_runs(
    small_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("torch", reason="training needs torch: pip install -e '.[train]'")
    to = tmp_path / "rewriter.npz"
    assert main(["--data", str(small_data), "--to", str(to), "--epochs", "40"]) == 0
    assert to.stat().st_size < 6_000_000

    measured = examples(small_data / "train/rewriter.valid.jsonl.gz")
    inference.heads.trunk.get_trunk()
    monkeypatch.setattr(inference.heads.npz, "files", lambda _: tmp_path)
    inference.heads.rewriter._head.cache_clear()
    try:
        found = inference.heads.rewriter.rewrite_questions([(one.question, one.answer) for one in measured])
    finally:
        inference.heads.rewriter._head.cache_clear()
    assert found == [one.rewritten for one in measured]
