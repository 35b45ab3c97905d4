"""The built-in encoder."""

from __future__ import annotations

import numpy as np
import pytest

from inference.encoders.configured import get_encoder
from inference.encoders.minilm import MiniLM


@pytest.fixture(scope="module")
def minilm() -> MiniLM:
    return MiniLM()


def test_vectors_have_unit_length_and_follow_meaning(minilm):
    vectors = minilm.encode_passages(
        ["A dog runs in the park.", "A puppy plays outside.", "Interest rates rose again."]
    )
    assert vectors.shape == (3, 384)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2


def test_a_text_has_the_same_vector_alone_and_in_any_batch(minilm):
    texts = [f"Sentence {i} " + "about many different things " * (i % 23) for i in range(60)]
    together = minilm.encode_passages(texts)
    alone = np.concatenate([minilm.encode_queries([text]) for text in texts])
    assert np.abs(together - alone).max() < 1e-4
    assert np.abs(together - minilm.encode_passages(texts[::-1])[::-1]).max() < 1e-4


def test_what_lies_beyond_256_tokens_does_not_count(minilm):
    start = "word " * 254
    a, b = minilm.encode_passages([start + "alpha " * 500, start + "omega " * 500])
    assert np.array_equal(a, b)
    c, d = minilm.encode_passages(["word " * 150 + "alpha", "word " * 150 + "omega"])
    assert not np.array_equal(c, d)


@pytest.mark.parametrize("text", ["", " ", "\x00\x07", "🙂🏳️‍🌈", "مرحبا", "x" * 200_000, "\u202e"])
def test_any_text_gets_a_vector(minilm, text):
    assert np.isfinite(minilm.encode_queries([text])).all()


def test_no_texts_give_no_vectors(minilm):
    assert minilm.encode_passages([]).shape == (0, 384)


def test_the_default_is_one_object_and_not_loaded_before_it_is_needed():
    encoder = get_encoder()
    assert encoder is get_encoder()
    assert isinstance(encoder, MiniLM)
