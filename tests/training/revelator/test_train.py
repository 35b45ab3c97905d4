from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from inference.errors import InputError
from training.revelator.build import main as build
from training.revelator.chat import read_chats
from training.revelator.train import PAPER, _check_prompts, by_skill, main

NEEDED = "fine-tuning needs more packages: pip install -e '.[train-revelator]'"


@pytest.fixture
def examples(data: Path, tmp_path: Path) -> Path:
    build(["--data", str(data), "--to", str(tmp_path / "built")])
    return tmp_path / "built/train.jsonl"


def test_the_recipe_is_the_papers():
    assert (PAPER.learning_rate, PAPER.epochs, PAPER.schedule, PAPER.warmup) == (1e-4, 1.0, "cosine", 0.1)


def test_batches_are_of_one_skill_and_in_an_order_that_the_seed_decides(examples):
    chats = list(read_chats(examples))
    ordered = by_skill(chats, 4, seed=0)
    assert sorted(chat["id"] for chat in ordered) == sorted(chat["id"] for chat in chats)
    assert ordered == by_skill(chats, 4, seed=0) != by_skill(chats, 4, seed=1)
    whole = sum(sum(chat["skill"] == skill for chat in chats) // 4 for skill in {chat["skill"] for chat in chats})
    assert whole > 2
    assert all(len({chat["skill"] for chat in ordered[4 * n : 4 * n + 4]}) == 1 for n in range(whole))


def test_examples_of_other_prompts_are_refused(examples):
    _check_prompts(examples)
    facts = examples.parent / "build.json"
    facts.write_text(json.dumps(json.loads(facts.read_text()) | {"prompts": "0123456789ab"}))
    with pytest.raises(InputError, match="other prompts") as caught:
        _check_prompts(examples)
    assert "revelator.build" in caught.value.hint


@pytest.mark.skipif(importlib.util.find_spec("trl") is not None, reason="all packages are there")
def test_what_is_missing_is_told(examples, tmp_path, capsys):
    (tmp_path / "base").mkdir()
    assert main(["--examples", str(examples), "--to", str(tmp_path), "--base", str(tmp_path / "base")]) == 2
    assert ".[train-revelator]" in capsys.readouterr().err


@pytest.fixture(scope="module")
def torch() -> Any:
    pytest.importorskip("trl", reason=NEEDED)
    pytest.importorskip("peft", reason=NEEDED)
    return pytest.importorskip("torch", reason=NEEDED)


@pytest.mark.slow
@pytest.mark.parametrize("same_prompts", [False, True])
def test_a_shared_beginning_changes_neither_loss_nor_gradients(torch, same_prompts):
    from transformers import LlamaConfig, LlamaForCausalLM

    from training.revelator.train import shared_prefix_trainer

    torch.manual_seed(0)
    size = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=50, num_key_value_heads=2, **size))
    ids = torch.randint(0, 50, (3, 14))
    ids[:, : 9 if same_prompts else 6] = ids[0, : 9 if same_prompts else 6]
    labels, mask = ids.clone(), torch.ones_like(ids)
    labels[:, :9] = -100  # the prompt
    labels[1, 12:], mask[1, 12:] = -100, 0  # padding
    inputs = {"input_ids": ids, "attention_mask": mask, "labels": labels}

    def gradients(loss: Any) -> list[Any]:
        model.zero_grad()
        loss.backward()
        return [parameter.grad.clone() for parameter in model.parameters()]

    trainer = shared_prefix_trainer().__new__(shared_prefix_trainer())
    trainer.model = model
    whole, shared = model(**inputs).loss, trainer.compute_loss(model, inputs)
    assert shared.item() == pytest.approx(whole.item(), abs=1e-5)
    for one, other in zip(gradients(whole), gradients(shared), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
    counted = trainer.compute_loss(model, inputs, num_items_in_batch=torch.tensor(26))
    assert counted.item() == pytest.approx(whole.item() * 13 / 26, abs=1e-5)
