from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import pytest

import inference.heads.hops
import inference.heads.npz
import inference.heads.trunk
from inference.errors import StoreError
from inference.heads.hops import SurfaceFeatures, predict_hops, surface_features
from inference.heads.npz import save_weights

QUESTIONS = {
    "who played the little girl in miracle on 34th street 1947": 1,
    "In which city is the Eiffel Tower?": 1,
    "Where was the director of the film Jaws born?": 2,
    "Who was born later, Ada Lovelace or Charles Babbage?": 2,
    "Who is the mayor of the city where the author of Brand was born?": 3,
    "Do both films Jaws and Alien (Film) have the directors from the same country?": 4,
}


def test_plain_questions_get_their_hop_count():
    predictions = predict_hops(list(QUESTIONS))
    assert {question: p.hops for question, p in zip(QUESTIONS, predictions, strict=True)} == QUESTIONS


def test_probabilities_are_of_one_to_four_hops_and_add_up():
    for prediction in predict_hops(list(QUESTIONS)):
        assert len(prediction.probabilities) == 4
        assert math.isclose(sum(prediction.probabilities), 1)
        assert prediction.probabilities[prediction.hops - 1] == max(prediction.probabilities)


def test_a_question_is_judged_alone_and_the_same_every_time():
    questions = list(QUESTIONS)
    together = predict_hops(questions)
    assert predict_hops(questions[::-1]) == together[::-1]
    assert [predict_hops([question])[0] for question in questions] == together


def test_threads_do_not_disturb_each_other():
    questions = list(QUESTIONS) * 3
    with ThreadPoolExecutor(4) as pool:
        at_once = list(pool.map(lambda question: predict_hops([question])[0], questions))
    assert at_once == predict_hops(questions)


def test_closing_punctuation_does_not_matter_to_the_encoding():
    (with_mark,) = predict_hops(["Where was the director of the film Jaws born?"])
    (without,) = predict_hops(["Where was the director of the film Jaws born"])
    assert with_mark.hops == without.hops


@pytest.mark.parametrize(
    "question", ["", " ", "???", "東京はどこ", "a" * 30_000, "word " * 2_000, "\ud83d half an emoji", "#1 >> spouse"]
)
def test_odd_questions_get_some_hop_count(question: str):
    (prediction,) = predict_hops([question])
    assert prediction.hops in (1, 2, 3, 4)
    assert math.isclose(sum(prediction.probabilities), 1)


def test_no_questions_no_predictions():
    assert predict_hops([]) == []


def test_features_are_those_of_the_paper():
    (features,) = surface_features(["Which bank did Ada Lovelace, and later Ada Lovelace, own?"])
    assert features.length == 10
    assert features.entities == 1
    assert features.depth >= 2


def test_depth_counts_edges_to_the_furthest_leaf():
    assert surface_features(["Who?"])[0].depth == 0
    shallow, deep = surface_features(
        ["Who wrote Emma?", "Who wrote the book that the man who came from the town that burnt liked?"]
    )
    assert shallow.depth == 1
    assert deep.depth > 4


def test_entropy_is_the_mean_log_of_sense_counts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(inference.heads.hops, "_senses", lambda: {"bank": 18, "own": 2})
    (features,) = surface_features(["Who owned banks?"])  # who: no entry; own, bank: by lemma
    assert features.entropy == pytest.approx((math.log(2) + math.log(18)) / 3)


def test_the_shipped_sense_table_is_wordnets():
    inference.heads.hops._senses.cache_clear()
    senses = inference.heads.hops._senses()
    assert (senses["bank"], senses["run"], senses["dog"]) == (18, 57, 8)
    assert min(senses.values()) == 2
    assert len(senses) > 20_000


def test_an_empty_question_has_no_features():
    assert surface_features(["", " \n"]) == [SurfaceFeatures(0, 0, 0, 0.0)] * 2


def test_weights_of_something_else_are_refused(tmp_path, monkeypatch: pytest.MonkeyPatch):
    import numpy as np

    save_weights(tmp_path / "hops.npz", {"hidden": np.zeros((2, 2), np.float32)})
    inference.heads.trunk.get_trunk()
    monkeypatch.setattr(inference.heads.npz, "files", lambda _: tmp_path)
    inference.heads.hops._head.cache_clear()
    with pytest.raises(StoreError, match=r"lack .*hops_bias"):
        predict_hops(["Who?"])
    inference.heads.hops._head.cache_clear()
