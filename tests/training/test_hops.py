from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import inference.heads.hops
import inference.heads.npz
import inference.heads.trunk
from training.hop_data import Labelled, evaluation_sets
from training.hops import evaluation_report, main


def test_the_report_has_accuracy_matrix_and_sources_of_each_set(monkeypatch: pytest.MonkeyPatch):
    said = {"a": 1, "b": 2, "c": 2}

    def predict(questions):
        return [inference.heads.hops.HopPrediction(said[question], (0.25,) * 4) for question in questions]

    monkeypatch.setattr("training.hops.predict_hops", predict)
    report = evaluation_report({"mine": [Labelled("a", 1, "x"), Labelled("b", 1, "x"), Labelled("c", 2, "y")]})
    assert "### mine" in report
    assert "3 questions, accuracy 0.667, macro-F1 0.667" in report
    assert "| 1 | 1 | 1 | 0 | 0 | 0.667 |" in report
    assert "| 2 | 0 | 1 | 0 | 0 | 0.667 |" in report
    assert "| x | 1 | 2 | 0.500 |" in report
    assert "\n| 3 |" not in report


def test_evaluation_of_the_shipped_predictor_runs_without_torch(data: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["--data", str(data), "--evaluate"]) == 0
    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if line.startswith("### ")] == [
        "### validation",
        "### musique",
        "### 2wikimultihopqa",
        "### hotpotqa",
    ]


def test_a_missing_data_folder_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["--data", str(tmp_path / "nowhere"), "--evaluate"]) == 2
    assert "nowhere" in capsys.readouterr().err


@pytest.mark.slow
def test_training_on_a_few_questions_gives_weights_that_the_predictor_runs(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("torch", reason="training needs torch: pip install -e '.[train]'")
    to = tmp_path / "hops.npz"
    assert main(["--data", str(data), "--to", str(to), "--epochs", "15"]) == 0
    assert to.stat().st_size < 6_000_000

    inference.heads.trunk.get_trunk()
    monkeypatch.setattr(inference.heads.npz, "files", lambda _: tmp_path)
    inference.heads.hops._head.cache_clear()
    try:
        rows = evaluation_sets(data)["validation"]
        predicted = [
            prediction.hops for prediction in inference.heads.hops.predict_hops([row.question for row in rows])
        ]
    finally:
        inference.heads.hops._head.cache_clear()
    assert np.mean([row.hops == hops for row, hops in zip(rows, predicted, strict=True)]) > 0.8


@pytest.mark.slow
def test_the_encoders_graph_runs_what_torch_trained():
    torch = pytest.importorskip("torch", reason="training needs torch: pip install -e '.[train]'")
    from inference import heads
    from training.layers import States, UpperLayers

    torch.manual_seed(0)
    texts = ["Who wrote Emma?", "Where was the author of Ulysses born?"]
    trunk = heads.get_trunk()
    module = UpperLayers(heads.untrained_layers()).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.01 * torch.randn_like(parameter)
        theirs = module(*States(texts, trunk).batch(np.arange(2))).numpy()
    upper = heads.UpperLayers(module.arrays())
    for text, expected in zip(texts, theirs, strict=True):
        ids = trunk.pieces(text).ids
        np.testing.assert_allclose(upper.states(trunk.states(ids)), expected[: len(ids)], atol=0.01)


@pytest.mark.slow
def test_feature_worth_covers_every_encoding_and_feature(data: Path):
    pytest.importorskip("torch", reason="training needs torch: pip install -e '.[train]'")
    from inference.heads.trunk import untrained_layers
    from training.hop_data import training_rows
    from training.hop_model import feature_worth

    tested = evaluation_sets(data)["validation"]
    found = feature_worth(untrained_layers(), training_rows(data)[0], tested)
    assert {encoding for encoding, _ in found} == {"trained", "frozen", "none"}
    assert ("none", "no surface feature") not in found
    assert {features for _, features in found} >= {"all four", "without entropy", "only length", "no surface feature"}
    for probabilities in found.values():
        assert probabilities.shape == (len(tested), 4)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-4)
