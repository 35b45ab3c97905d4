"""App. C's router test: balanced, of questions that nothing is trained on, by the encoder or by a model."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from inference.errors import InputError
from inference.heads.revelator import ROUTES, route
from tests.training.conftest import write
from training.revelator.encoder_data import divided_examples
from training.revelator.router_accuracy import main, report, router_test
from training.words import normalised

NAMES = [f"{first} {last}" for first in ("Ann", "Bo", "Cy", "Di", "Ed", "Flo") for last in ("Lee", "Kim", "Roe", "Ray")]


@pytest.fixture
def enough(data: Path) -> Path:
    """The same folder with questions of all four kinds to test with."""
    asked = {
        "nq": "who is {}",
        "triviaqa": "Which town is {} from?",
        "popqa": "What is {}'s occupation?",
        "hotpotqa": "Where was the wife of {} born?",
        "2wikimultihopqa": "Who is older, {} or Bob?",
        "musique": "Who is the mother of the wife of {}?",
    }
    for name, text in asked.items():
        rows = [{"question": text.format(person), "type": "x"} for person in NAMES]
        write(data / name / "questions.jsonl.gz", rows)
    rows = [
        {"question": f"What does {n} do with a spoon?", "label": "straightforward", "source": "commonsenseqa-train"}
        for n in [*NAMES, *map(str, range(40))]
    ]
    write(data / "train/router.train.jsonl.gz", rows)
    contexts = [
        {
            "question": "?",
            "context": f"Who is {n} Smith?\nOne.\n\nWhere is {n} Smith?\nThere.\n\nWhen was {n} Smith?\nNow.",
        }
        for n in [*NAMES, *(f"{n}{m}" for n in ("Abe", "Bea", "Cal", "Dan") for m in "bcdfghklmnp")]
    ]
    write(data / "train/extractor.train.jsonl.gz", contexts)
    return data


def test_as_many_questions_of_each_kind_and_of_each_source(enough: Path):
    rows = router_test(enough, 3)
    assert Counter(row.target for row in rows) == dict.fromkeys(
        ("straightforward", "single-step", "compound", "complex"), 3
    )
    assert Counter(row.source for row in rows if row.source.endswith("dev")) == dict.fromkeys(
        (f"{name}, dev" for name in ("nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique")), 1
    )
    assert router_test(enough, 3) == rows


def test_no_question_of_the_test_is_trained_on(enough: Path):
    known, calibration, _ = divided_examples(enough)
    trained = {normalised(text) for row in known + calibration for text in (row.question, row.root)}
    assert not trained & {normalised(row.question) for row in router_test(enough, 3)}


def test_too_few_questions_of_a_kind_are_said_with_how_many_there_are(enough: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(InputError, match="straightforward questions to test with"):
        router_test(enough, 1000)
    assert main(["--data", str(enough), "--each", "1000"]) != 0
    assert "--each" in capsys.readouterr().err


def test_the_report_counts_right_wrong_and_unreadable_routes(enough: Path):
    rows = router_test(enough, 1)
    text = report(rows, [0, -1, 2, 2])
    assert text.startswith("4 questions, accuracy 0.500 ")
    assert "| single_step | 1 | 0 | 0 | 0 | 0 | 1 | 0.000 |" in text
    assert "| complex | 1 | 0 | 0 | 1 | 0 | 0 | 0.000 |" in text


def test_the_encoder_is_tested_by_the_command(enough: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["--data", str(enough), "--each", "2"]) == 0
    printed = capsys.readouterr().out
    rows = router_test(enough, 2)
    assert printed == report(rows, [ROUTES.index(said.route) for said in route([row.question for row in rows])])
    assert "| single_step | popqa, dev | 1 | 1.000 |" in printed


def test_a_model_is_asked_by_the_router_s_prompt(enough: Path, tmp_path: Path, model, capsys):
    def script(request):
        asked = request.prompt.rpartition("<question>")[2]
        return "no route" if "spoon" in asked else json.dumps({"route": "complex"})

    server = model(script)
    assert main(["--data", str(enough), "--each", "2", "--model", str(tmp_path / "replies")]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("8 questions, accuracy 0.250 ")
    assert "| straightforward | 2 | 0 | 0 | 0 | 0 | 2 | 0.000 |" in printed
    assert len(server.requests) == 8
