"""The mean of adapters: of their numbers, and only of adapters that fit together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inference.merging import read_adapter
from training.lora.gguf_files import write_adapter
from training.lora.mean import main

PLACE = "blk.0.attn_q.weight"


def adapter(
    to: Path, seed: int, *, rank: int = 32, alpha: float = 64.0, base: str = "llama", name: str = PLACE
) -> Path:
    rng = np.random.default_rng(seed)
    halves = {
        f"{name}.lora_a": rng.normal(size=(rank, 64)).astype(np.float32),
        f"{name}.lora_b": rng.normal(size=(96, rank)).astype(np.float32),
    }
    return write_adapter(halves, base, alpha, to)


def test_each_half_is_the_mean_of_the_adapters(tmp_path, capsys):
    one, two, to = adapter(tmp_path / "1.gguf", 1), adapter(tmp_path / "2.gguf", 2), tmp_path / "mean.gguf"
    assert main([str(one), str(two), "--to", str(to)]) == 0
    assert capsys.readouterr().out == f"{to}\n"
    (_, first), (_, second), (alpha, mean) = map(read_adapter, (one, two, to))
    assert alpha == 64.0
    assert mean.keys() == first.keys()
    for name, matrix in mean.items():  # to the eight bits of a number
        assert np.allclose(matrix, (first[name] + second[name]) / 2, atol=0.02), name


@pytest.mark.parametrize("other", [{"rank": 16}, {"alpha": 32.0}, {"base": "qwen2"}, {"name": "blk.0.attn_k.weight"}])
def test_an_adapter_that_does_not_fit_is_named(other, tmp_path, capsys):
    one, two = adapter(tmp_path / "1.gguf", 1), adapter(tmp_path / "2.gguf", 2, **other)
    assert main([str(one), str(two), "--to", str(tmp_path / "mean.gguf")]) == 2
    assert f"{two}: base, layers, rank or alpha differ from {one}" in capsys.readouterr().err
    assert not (tmp_path / "mean.gguf").exists()


@pytest.mark.parametrize("content", [None, b"", b"GGUF and no more"])
def test_a_file_that_is_no_adapter_is_named(content, tmp_path, capsys):
    if content is not None:
        (tmp_path / "2.gguf").write_bytes(content)
    one = adapter(tmp_path / "1.gguf", 1)
    assert main([str(one), str(tmp_path / "2.gguf"), "--to", str(tmp_path / "mean.gguf")]) == 2
    assert str(tmp_path / "2.gguf") in capsys.readouterr().err
