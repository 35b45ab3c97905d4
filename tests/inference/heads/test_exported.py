"""Checkpoints of others: real onnxruntime sessions over tiny models."""

from __future__ import annotations

import json

import numpy as np
import pytest

from inference.errors import InputError
from inference.heads.exported import Seq2SeqCheckpoint, SpanCheckpoint, check_checkpoint
from tests.onnx_files import FLOAT, INT64, WORDS, lookup_model, rewriter_checkpoint, span_checkpoint

CONTEXT = "who directed zorba\nann lee\n\nwhere was ann lee born\nin paris"


@pytest.fixture
def span(tmp_path):
    return span_checkpoint(tmp_path / "span")


@pytest.fixture
def rewriter(tmp_path):
    return rewriter_checkpoint(tmp_path / "rewriter")


def test_the_best_span_is_taken_from_an_answer_and_from_nowhere_else(span):
    found = SpanCheckpoint(span).extract([("where was she born", CONTEXT)])[0]
    assert found.answer == "ann lee"
    assert CONTEXT[found.start : found.end] == "ann lee"
    assert 0 < found.probability < 1


def test_every_item_is_answered_in_its_place(span):
    items = [("who", "who\nparis"), ("who", ""), ("who", "who\nin greece")]
    answers = [found.answer for found in SpanCheckpoint(span).extract(items)]
    assert answers[0] == "paris"
    assert answers[1] == ""
    assert answers[2] in ("in", "greece", "in greece")


def test_long_contexts_are_cut_and_no_trouble(span):
    assert SpanCheckpoint(span).extract([("who", "\n\n".join(["who\nann lee"] * 400))])[0].answer == "ann lee"


def test_a_sequence_is_written_until_its_end(rewriter):
    assert Seq2SeqCheckpoint(rewriter).rewrite([("where was she born", "ann lee")]) == ["where was ann lee born"]


def test_a_model_that_never_ends_is_ended(rewriter):
    loop = np.zeros((len(WORDS), len(WORDS)))
    loop[:, 5] = 1
    inputs = {"input_ids": INT64, "encoder_hidden_states": FLOAT}
    (rewriter / "decoder_model.onnx").write_bytes(lookup_model(inputs, {"logits": loop}, rank=3))
    assert len(Seq2SeqCheckpoint(rewriter).rewrite([("where", "x")])[0].split()) == 96


def test_a_model_that_writes_nothing_changes_nothing(rewriter):
    (rewriter / "config.json").write_text(
        json.dumps({"decoder_start_token_id": 0, "eos_token_id": WORDS.index("where")})
    )
    assert Seq2SeqCheckpoint(rewriter).rewrite([("where was she born", "ann lee")]) == ["where was she born"]


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json"])
def test_a_missing_file_is_named(span, missing):
    (span / missing).unlink()
    with pytest.raises(InputError, match=f"HOPGRAPH_EXTRACTOR: .* has no {missing}"):
        check_checkpoint("HOPGRAPH_EXTRACTOR", span)
    with pytest.raises(InputError, match=missing):
        SpanCheckpoint(span)


@pytest.mark.parametrize("damaged", ["encoder_model.onnx", "decoder_model.onnx", "tokenizer.json", "config.json"])
def test_a_damaged_file_is_named(rewriter, damaged):
    (rewriter / damaged).write_text("no")
    with pytest.raises(InputError, match=damaged):
        Seq2SeqCheckpoint(rewriter)


def test_an_export_of_another_task_is_a_clear_error(span, rewriter):
    (span / "model.onnx").write_bytes((rewriter / "encoder_model.onnx").read_bytes())
    with pytest.raises(InputError, match="the model can't be run"):
        SpanCheckpoint(span).extract([("who", CONTEXT)])
