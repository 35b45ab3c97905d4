"""An adapter merged into a model's weights: small real GGUF files, and the embedded model's own."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gguf
import httpx
import numpy as np
import pytest

from inference import embedded_model
from inference.embedded import ensure_server
from inference.embedded_model import AGENTS_ADAPTER, served_model
from inference.merging import merged_model
from inference.settings import Settings, get_settings
from inference.weights import smollm2_path

Q4, Q8 = gguf.GGMLQuantizationType.Q4_1, gguf.GGMLQuantizationType.Q8_0
TOKENS = ["<|end|>", "Ġthe", "é", '"']
RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(size=(96, 64)).astype(np.float32)
NORM = RNG.normal(size=64).astype(np.float32)


def write_base(to: Path) -> Path:
    writer = gguf.GGUFWriter(to, "llama")
    writer.add_block_count(1)
    writer.add_float32("llama.rope.freq_base", 100000.0)
    writer.add_array("tokenizer.ggml.tokens", TOKENS)
    writer.add_array("tokenizer.ggml.token_type", [3, 1, 1, 1])
    writer.add_tensor("blk.0.attn_q.weight", gguf.quants.quantize(WEIGHTS, Q4), raw_dtype=Q4)
    writer.add_tensor("blk.0.attn_k.weight", gguf.quants.quantize(WEIGHTS, Q4), raw_dtype=Q4)
    writer.add_tensor("blk.0.attn_norm.weight", NORM)
    return close(writer, to)


def write_adapter(to: Path, *, rank: int = 4, alpha: float = 8.0, name: str = "blk.0.attn_q", rows: int = 96) -> Path:
    rng = np.random.default_rng(rank)
    writer = gguf.GGUFWriter(to, "llama")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", alpha)
    writer.add_tensor(f"{name}.weight.lora_a", rng.normal(size=(rank, 64)).astype(np.float32))
    writer.add_tensor(f"{name}.weight.lora_b", rng.normal(size=(rows, rank)).astype(np.float32))
    return close(writer, to)


def close(writer: gguf.GGUFWriter, to: Path) -> Path:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return to


def tensors(file: Path) -> dict[str, tuple[gguf.GGMLQuantizationType, np.ndarray]]:
    return {
        tensor.name: (tensor.tensor_type, gguf.quants.dequantize(tensor.data, tensor.tensor_type))
        for tensor in gguf.GGUFReader(file).tensors
    }


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return write_base(tmp_path / "base.gguf")


def test_the_scaled_product_is_added_and_the_rest_stays(base, tmp_path):
    lora = write_adapter(tmp_path / "lora.gguf", rank=4, alpha=8.0)
    halves = tensors(lora)
    before, after = tensors(base), tensors(merged_model(base, lora))
    change = 8.0 / 4 * halves["blk.0.attn_q.weight.lora_b"][1] @ halves["blk.0.attn_q.weight.lora_a"][1]
    kind, weights = after["blk.0.attn_q.weight"]
    expected = before["blk.0.attn_q.weight"][1] + change
    assert kind is Q8
    assert np.abs(weights - expected).max() <= np.abs(expected).max() / 127
    for name in ("blk.0.attn_k.weight", "blk.0.attn_norm.weight"):
        assert after[name][0] is before[name][0]
        assert np.array_equal(after[name][1], before[name][1])


def metadata(file: Path) -> dict[str, object]:
    """All but the counts of the file's format."""
    fields = gguf.GGUFReader(file).fields
    return {name: field.contents() for name, field in fields.items() if not name.startswith("GGUF.")}


def test_metadata_are_those_of_the_model(base, tmp_path):
    merged = metadata(merged_model(base, write_adapter(tmp_path / "lora.gguf")))
    assert merged == metadata(base)
    assert merged["tokenizer.ggml.tokens"] == TOKENS


def test_it_is_made_once_and_replaces_that_of_an_older_adapter(base, tmp_path, capsys):
    lora = write_adapter(tmp_path / "lora.gguf")
    with ThreadPoolExecutor(4) as pool:
        (first,) = set(pool.map(lambda _: merged_model(base, lora), range(8)))
    assert capsys.readouterr().err.count("Merging") == 1
    beside = merged_model(base, write_adapter(tmp_path / "other.gguf"))
    second = merged_model(base, write_adapter(lora, rank=8))
    assert second != first
    assert set(base.parent.glob("base+*")) == {second, beside}


@pytest.mark.parametrize(
    ("adapter", "problem"),
    [({"name": "blk.7.attn_q"}, "has no blk.7.attn_q.weight"), ({"rows": 32}, r"is \(32, 64\), not \(96, 64\)")],
)
def test_an_adapter_of_another_model_is_an_error_and_leaves_no_file(base, tmp_path, adapter, problem):
    lora = write_adapter(tmp_path / "lora.gguf", **adapter)
    with pytest.raises(ValueError, match=problem):
        merged_model(base, lora)
    assert {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")} == {"base.gguf", "lora.gguf"}


def test_a_model_is_no_adapter(base):
    with pytest.raises(ValueError, match="is no LoRA adapter"):
        merged_model(base, base)


def test_an_adapter_that_is_cut_off_is_an_error_wherever_it_ends(base, tmp_path):
    whole = write_adapter(tmp_path / "lora.gguf").read_bytes()
    lora = tmp_path / "cut.gguf"
    for length in range(4, len(whole), 7):
        lora.write_bytes(whole[:length])
        with pytest.raises(ValueError):  # noqa: PT011 - what can't be read differs, and gguf says it
            merged_model(base, lora)


def test_only_the_bundled_model_is_merged_and_where_that_fails_the_server_applies_it(
    base, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(embedded_model, "smollm2_path", lambda home: base)
    good, bad = write_adapter(tmp_path / "good.gguf"), write_adapter(tmp_path / "bad.gguf", name="blk.7.attn_q")
    assert served_model("smollm2", Settings(embedded_lora=good)) == ("smollm2+good", merged_model(base, good), None)
    assert served_model(str(base), Settings(embedded_lora=good)) == ("base+good", base, good)
    capsys.readouterr()
    assert served_model("smollm2", Settings(embedded_lora=bad)) == ("smollm2+bad", base, bad)
    assert "Not merged, so answers take longer" in capsys.readouterr().err
    assert served_model("smollm2", Settings(embedded_lora="none")) == ("smollm2", base, None)


@pytest.mark.slow
def test_merged_it_says_what_it_says_with_the_adapter_applied(tmp_path_factory, home, monkeypatch):
    weights = smollm2_path(tmp_path_factory.mktemp("weights"))
    monkeypatch.setenv("HOPGRAPH_EMBEDDED_CONTEXT", "2048")
    said, tokens = [], []
    for file in (weights, merged_model(weights, AGENTS_ADAPTER)):
        monkeypatch.setenv("HOPGRAPH_EMBEDDED_LORA", str(AGENTS_ADAPTER) if file == weights else "none")
        get_settings.cache_clear()
        server = ensure_server(str(file))
        body = {
            "messages": [{"role": "user", "content": "Name the capital of France."}],
            "temperature": 0,
            "max_tokens": 1,
            "logprobs": True,
            "top_logprobs": 5,
        }
        reply = httpx.post(f"{server.url}/chat/completions", json=body, timeout=300).raise_for_status().json()
        said.append(
            {row["token"]: row["logprob"] for row in reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]}
        )
        text = {"content": 'In 1983: "Gdańsk, 東京"\n\n1. {"answer": "no"}'}
        tokens.append(httpx.post(f"{server.url.removesuffix('/v1')}/tokenize", json=text, timeout=60).json()["tokens"])
        server.release()
    assert tokens[0] == tokens[1]
    applied, merged = said
    likeliest, logprob = max(applied.items(), key=lambda item: item[1])
    assert likeliest == max(merged, key=merged.__getitem__)
    # Q4_1 with an adapter and Q8_0 without are rounded differently.
    assert math.exp(merged[likeliest]) == pytest.approx(math.exp(logprob), abs=0.15)
