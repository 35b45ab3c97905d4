"""What transformers trains and what llama.cpp serves are one model: the same tokens, the same adapter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from inference.embedded import Server, ensure_server
from inference.settings import get_settings
from inference.weights import smollm2_path

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch", reason="fine-tuning needs more packages: pip install -e '.[train-lora]'")
peft = pytest.importorskip("peft", reason="fine-tuning needs more packages: pip install -e '.[train-lora]'")
pytest.importorskip("gguf", reason="fine-tuning needs more packages: pip install -e '.[train-lora]'")

MESSAGES = [{"role": "user", "content": "Name three cities of France, and the year 1789's revolution."}]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return smollm2_path(tmp_path_factory.mktemp("weights"))


@pytest.fixture(scope="module")
def base(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded model in transformers' format."""
    from training.lora.gguf_files import base_folder

    return base_folder(str(weights), tmp_path_factory.mktemp("converted"))


@pytest.fixture(scope="module")
def adapter(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter of random numbers on all linear layers, so that a row out of place shows."""
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", init_lora_weights=False)
    model = peft.get_peft_model(AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.mul_(0.7)
    folder = tmp_path_factory.mktemp("adapter")
    model.save_pretrained(folder)
    return folder


@pytest.fixture
def serve(weights: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    servers = []

    def start(lora: Path | None = None) -> Server:
        monkeypatch.setenv("HOPGRAPH_EMBEDDED_CONTEXT", "2048")
        monkeypatch.setenv("HOPGRAPH_EMBEDDED_PARALLEL", "1")
        monkeypatch.setenv("HOPGRAPH_EMBEDDED_IDLE", "1")
        monkeypatch.setenv("HOPGRAPH_EMBEDDED_LORA", str(lora or ""))
        get_settings.cache_clear()
        servers.append(ensure_server(str(weights)))
        return servers[-1]

    yield start
    for server in servers:
        server.release()


def first_tokens(server: Server, count: int) -> list[tuple[int, float]]:
    """Greedy tokens, and their log-probabilities, of llama.cpp."""
    body = {"messages": MESSAGES, "temperature": 0, "max_tokens": count, "logprobs": True}
    reply = httpx.post(f"{server.url}/chat/completions", json=body, timeout=300).raise_for_status().json()
    return [(row["id"], row["logprob"]) for row in reply["choices"][0]["logprobs"]["content"]]


def logprobs_of(model: Any, prompt: list[int], said: list[int]) -> list[float]:
    """Log-probabilities of tokens after a prompt, of transformers."""
    with torch.no_grad():
        logits = model(torch.tensor([prompt + said])).logits[0].log_softmax(-1)
    return [float(logits[len(prompt) - 1 + place, token]) for place, token in enumerate(said)]


def distance(one: list[float], other: list[float]) -> float:
    """Mean absolute difference."""
    return sum(abs(a - b) for a, b in zip(one, other, strict=True)) / len(one)


def test_the_converted_model_has_the_tokens_that_llama_cpp_has(base, serve):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(base)
    server = serve()
    for text in ('In 1983, on 2004-10-13: it\'s "so".', '{"relevant": true}', "Gdańsk, 東京\n\n1. Who?", "a  b   3 4"):
        reply = httpx.post(f"{server.url.removesuffix('/v1')}/tokenize", json={"content": text}, timeout=60).json()
        assert tokenizer(text)["input_ids"] == reply["tokens"], text


def test_llama_cpp_gives_the_probabilities_that_transformers_gives(base, adapter, serve, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from training.lora.gguf_files import write_lora

    prompt = AutoTokenizer.from_pretrained(base).apply_chat_template(
        MESSAGES, add_generation_prompt=True, return_dict=True
    )["input_ids"]
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    plain = first_tokens(serve(None), 12)
    assert distance([logprob for _, logprob in plain], logprobs_of(model, prompt, [token for token, _ in plain])) < 0.1

    said = first_tokens(serve(write_lora(adapter, base, tmp_path / "adapter.gguf")), 12)
    without = logprobs_of(model, prompt, [token for token, _ in said])
    # This puts the adapter into the model itself.
    there = logprobs_of(peft.PeftModel.from_pretrained(model, adapter), prompt, [token for token, _ in said])
    here = [logprob for _, logprob in said]
    # Activations are quantized here and not there. Rows out of place would be as far off as no adapter at all.
    assert 2 * distance(here, there) < distance(here, without)


def test_an_adapter_that_was_written_is_read_back_and_one_of_another_rank_is_refused(base, adapter, tmp_path):
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    from inference.errors import InputError
    from training.lora.gguf_files import read_lora, write_lora

    file = write_lora(adapter, base, tmp_path / "adapter.gguf")

    def fresh(rank: int) -> Any:
        config = peft.LoraConfig(r=rank, lora_alpha=8, target_modules="all-linear")
        return peft.get_peft_model(AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), config)

    model = fresh(4)
    read_lora(file, base, model)
    there = peft.get_peft_model_state_dict(model)
    written = load_file(adapter / "adapter_model.safetensors")
    assert there.keys() == written.keys()
    for key, matrix in written.items():
        assert torch.allclose(there[key], matrix, atol=0.01 * float(matrix.abs().max())), key
    with pytest.raises(InputError, match="is needed"):
        read_lora(file, base, fresh(8))
    file.write_bytes(b"GGUF")
    with pytest.raises(InputError, match="--adapter: "):
        read_lora(file, base, model)


def test_a_model_is_trained_to_an_adapter_in_both_formats_and_goes_on_after_a_stop(base, data, tmp_path, capsys):
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from training.lora.train import main
    from training.revelator.build import main as build

    small = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    folder, examples = tmp_path / "small", tmp_path / "built/train.jsonl"
    LlamaForCausalLM(LlamaConfig(vocab_size=49152, num_key_value_heads=2, **small)).save_pretrained(folder)
    AutoTokenizer.from_pretrained(base).save_pretrained(folder)
    build(["--data", str(data), "--to", str(examples.parent), "--limit", "8"])
    capsys.readouterr()
    command = [
        "--base",
        str(folder),
        "--examples",
        str(examples),
        "--to",
        str(tmp_path),
        "--tokens",
        "1500",
        "--batches",
        "1",
    ]
    assert main([*command, "--minutes", "0.0001"]) == 0
    stopped = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (stopped["finished"], stopped["steps"]) == (False, 1)
    assert not (tmp_path / "adapter.gguf").exists()
    assert main(command) == 0
    facts = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert facts["finished"]
    assert facts["steps"] == facts["of"] > 1
    assert (tmp_path / "adapter/adapter_model.safetensors").stat().st_size > 0
    assert (tmp_path / "adapter.gguf").read_bytes()[:4] == b"GGUF"


def test_an_architecture_that_is_not_known_is_named(adapter, tmp_path):
    from inference.errors import InputError
    from training.lora.gguf_files import write_lora

    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["MambaForCausalLM"]}))
    with pytest.raises(InputError, match="MambaForCausalLM"):
        write_lora(adapter, tmp_path, tmp_path / "adapter.gguf")
