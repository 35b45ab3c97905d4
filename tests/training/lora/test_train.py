from __future__ import annotations

import importlib.util
import json
from contextlib import nullcontext
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from inference.errors import InputError
from training.lora.batches import Example, batches, size, weighted
from training.lora.chats import read_chats
from training.lora.prompts import check_prompts
from training.lora.train import PAPER, main

NEEDED = "fine-tuning needs more packages: pip install -e '.[train-lora]'"


def test_the_recipe_is_the_papers():
    assert (PAPER.learning_rate, PAPER.epochs, PAPER.schedule, PAPER.warmup) == (1e-4, 1.0, "cosine", 0.1)


def rows(skill: str, instructions: list[int], passages: list[list[int]], questions: int) -> list[Example]:
    asked = [(*instructions, *text, 90 + n) for text in passages for n in range(questions)]
    return [Example(skill, prompt, (7, 8)) for prompt in asked]


def test_batches_are_of_one_skill_within_the_bound_and_in_an_order_that_the_seed_decides():
    some = [
        *rows("a", [1] * 20, [[n] * (5 + n) for n in range(30)], 1),
        *rows("b", [2] * 10, [[n] * 9 for n in range(9)], 1),
    ]
    made = batches(some, 120, seed=0)
    assert sorted(row.prompt for batch in made for row in batch) == sorted(row.prompt for row in some)
    assert all(len({row.skill for row in batch}) == 1 for batch in made)
    assert all(size(batch) <= 120 for batch in made)
    assert max(map(len, made)) > 2
    assert made == batches(some[::-1], 120, seed=0) != batches(some, 120, seed=1)


def test_a_part_of_an_epoch_has_its_share_of_every_skill():
    often, seldom = rows("often", [1], [[n] * 40 for n in range(300)], 1), rows("seldom", [2], [[3]], 40)
    made = batches([*often, *seldom], 60, seed=0)
    of = {
        skill: [place for place, batch in enumerate(made) if batch[0].skill == skill] for skill in ("often", "seldom")
    }
    assert len(of["seldom"]) == 5
    parts = [len(made) * part / 5 for part in range(6)]
    assert all(sum(begin <= place < end for place in of["seldom"]) <= 2 for begin, end in pairwise(parts))
    assert of["seldom"][0] < len(made) / 3
    assert of["seldom"][-1] > len(made) * 2 / 3


def test_batches_of_verdicts_have_both_where_the_questions_of_one_are_shorter():
    short = [Example("judge", (1,) * 300 + (100 + n,) + (2,) * n, (3,)) for n in range(1, 40)]
    long = [Example("judge", (1,) * 300 + (200 + n,) + (4,) * n, (5,)) for n in range(31, 70)]
    made = batches([*short, *long], 2000, seed=0)
    assert sum(len({row.completion for row in batch}) == 2 for batch in made) > len(made) * 0.8


def test_what_is_asked_about_the_same_passages_is_in_one_batch():
    some = rows("reader", [1, 2, 3], [[10 + n] * 50 for n in range(6)], 4)
    made = batches(some, 200, seed=0)
    assert [len({row.prompt[3] for row in batch}) for batch in made] == [1] * 6
    assert all(size(batch) == 53 + 4 * 3 for batch in made)


@pytest.mark.parametrize(("exponent", "shares"), [(0, (0.05, 0.95)), (0.5, (0.187, 0.813)), (1, (0.5, 0.5))])
def test_short_replies_weigh_what_the_exponent_says_and_a_token_one_on_average(exponent, shares):
    short, long = weighted([Example("judge", (1,), (2,)), Example("planner", (1,), (2,) * 19)], exponent)
    assert (short.weight / 20, 19 * long.weight / 20) == pytest.approx(shares, abs=1e-3)


def test_an_example_longer_than_the_bound_is_alone():
    assert [len(batch) for batch in batches(rows("a", [1], [[5] * 99, [6] * 9, [7] * 9], 1), 50, seed=0)] in (
        [1, 2],
        [2, 1],
    )


def test_examples_of_other_prompts_are_refused(examples):
    check_prompts(examples)
    facts = examples.parent / "build.json"
    known = json.loads(facts.read_text())
    facts.write_text(json.dumps(known | {"prompts": known["prompts"] | {"hanrag/router": "0123456789ab"}}))
    with pytest.raises(InputError, match="other prompts than those of now: hanrag/router"):
        check_prompts(examples)


def test_examples_that_are_no_chats_are_named_by_file_and_line(tmp_path):
    (tmp_path / "train.jsonl").write_text('{"id": "1", "skill": "a", "label": "b", "question": "c", "prompt": "hi"}\n')
    with pytest.raises(InputError, match="line 1: field 'prompt' must be a list of chat messages"):
        list(read_chats(tmp_path / "train.jsonl"))


@pytest.mark.skipif(importlib.util.find_spec("peft") is not None, reason="all packages are there")
def test_what_is_missing_is_told(examples, tmp_path, capsys):
    (tmp_path / "base").mkdir()
    assert main(["--examples", str(examples), "--to", str(tmp_path), "--base", str(tmp_path / "base")]) == 2
    assert ".[train-lora]" in capsys.readouterr().err


@pytest.fixture(scope="module")
def torch() -> Any:
    pytest.importorskip("peft", reason=NEEDED)
    return pytest.importorskip("torch", reason=NEEDED)


@pytest.mark.slow
@pytest.mark.parametrize("same_prompts", [False, True])
def test_a_shared_beginning_changes_neither_loss_nor_gradients(torch, same_prompts):
    from transformers import LlamaConfig, LlamaForCausalLM

    from training.lora.train import shared_prefix_trainer

    torch.manual_seed(0)
    size = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=50, num_key_value_heads=2, **size))
    ids = torch.randint(0, 50, (3, 14))
    ids[:, : 9 if same_prompts else 6] = ids[0, : 9 if same_prompts else 6]
    labels, mask = ids.clone(), torch.ones_like(ids)
    labels[:, :9] = -100  # the prompt
    labels[1, 12:], mask[1, 12:] = -100, 0  # padding
    inputs = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    alike = inputs | {"weights": torch.ones(3)}

    def gradients(loss: Any) -> list[Any]:
        model.zero_grad()
        loss.backward()
        return [parameter.grad.clone() for parameter in model.parameters()]

    trainer = shared_prefix_trainer().__new__(shared_prefix_trainer())
    trainer.accelerator = SimpleNamespace(autocast=nullcontext)
    whole, shared = model(**inputs).loss, trainer.compute_loss(model, alike)
    assert shared.item() == pytest.approx(whole.item(), abs=1e-5)
    for one, other in zip(gradients(whole), gradients(shared), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
    counted = trainer.compute_loss(model, alike, num_items_in_batch=torch.tensor(26))
    assert counted.item() == pytest.approx(whole.item() * 13 / 26, abs=1e-5)
    cut = shared_prefix_trainer(2).__new__(shared_prefix_trainer(2))
    cut.accelerator = trainer.accelerator
    read = cut.compute_loss(model, alike)
    assert read.item() == pytest.approx(whole.item(), abs=1e-5)
    heads = [gradients(loss)[-1] for loss in (model(**inputs).loss, read)]  # the output layer's
    torch.testing.assert_close(*heads, atol=1e-5, rtol=1e-4)
    assert not torch.allclose(gradients(model(**inputs).loss)[0], gradients(cut.compute_loss(model, alike))[0])
    one = trainer.compute_loss(model, inputs | {"weights": torch.tensor([13 / 5, 0, 0])})
    alone = {name: value[:1] for name, value in inputs.items()}
    assert one.item() == pytest.approx(model(**alone).loss.item(), abs=1e-5)
