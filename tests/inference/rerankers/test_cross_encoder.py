"""Cross-encoders in folders: a real ONNX model, small enough to tell its scores by hand."""

from __future__ import annotations

import numpy as np
import pytest

from inference.errors import InputError
from inference.rerankers import cross_encoder
from inference.rerankers.configured import check_reranker, get_reranker
from inference.rerankers.cross_encoder import CrossEncoder
from inference.settings import get_settings
from tests.onnx_files import cross_encoder_checkpoint, span_checkpoint

TEXTS = ["Paris", "Ann Lee directed Zorba", "she was born in Greece", "Ann"]
SCORES = [-2.0, 6.0, 0.0, 1.0]


@pytest.mark.parametrize("tokens_a_batch", [1, 6, 4096])
def test_each_text_has_its_score_whatever_batch_it_is_in(tmp_path, monkeypatch, tokens_a_batch):
    monkeypatch.setattr(cross_encoder, "TOKENS_A_BATCH", tokens_a_batch)
    scores = CrossEncoder(cross_encoder_checkpoint(tmp_path / "tiny")).rerank("who directed Zorba", TEXTS)
    assert scores.values == pytest.approx(SCORES)
    assert (scores.model, scores.tokens, scores.truncated) == ("tiny", 4 * 3 + 1 + 4 + 5 + 1, 0)


def test_of_two_logits_the_second_is_for_relevant(tmp_path):
    scores = CrossEncoder(cross_encoder_checkpoint(tmp_path / "tiny", logits=2)).rerank("who", TEXTS)
    assert scores.values == pytest.approx([2 * score for score in SCORES])


def test_long_texts_are_cut_and_counted_and_the_query_is_kept(tmp_path):
    scores = CrossEncoder(cross_encoder_checkpoint(tmp_path / "tiny")).rerank(
        "who " * 5_000, ["in " * 600 + "zorba", "zorba"]
    )
    assert scores.values == pytest.approx([0.0, 3.0])
    assert scores.truncated == 1
    assert scores.tokens <= 2 * cross_encoder.LONGEST


def test_no_texts_have_no_scores(tmp_path):
    assert CrossEncoder(cross_encoder_checkpoint(tmp_path / "tiny")).rerank("who", []).values == []


def test_the_setting_names_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOPGRAPH_RERANK_MODEL", str(cross_encoder_checkpoint(tmp_path / "tiny")))
    get_settings.cache_clear()
    assert check_reranker() == get_reranker().id == "tiny"


def test_bad_folders_are_named_with_what_they_lack(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="no reranking model is configured"):
        check_reranker()
    monkeypatch.setenv("HOPGRAPH_RERANK_MODEL", str(tmp_path / "none"))
    get_settings.cache_clear()
    with pytest.raises(InputError, match=r"HOPGRAPH_RERANK_MODEL: .*none has no model.onnx, tokenizer.json"):
        check_reranker()
    folder = cross_encoder_checkpoint(tmp_path / "damaged")
    (folder / "model.onnx").write_bytes(b"not a model")
    with pytest.raises(InputError, match=r"HOPGRAPH_RERANK_MODEL: .*model.onnx can't be used"):
        CrossEncoder(folder)


def test_scores_that_are_no_numbers_are_refused_as_such(tmp_path, monkeypatch):
    monkeypatch.setattr(
        cross_encoder, "run_model", lambda session, given, *_: [np.full((len(given["input_ids"]), 1), np.nan)]
    )
    with pytest.raises(InputError, match="output has NaN or infinity"):
        CrossEncoder(cross_encoder_checkpoint(tmp_path / "tiny")).rerank("who", TEXTS)


def test_a_model_of_another_task_is_refused(tmp_path):
    with pytest.raises(InputError, match="not one score a text"):
        CrossEncoder(span_checkpoint(tmp_path / "span")).rerank("who", TEXTS)
