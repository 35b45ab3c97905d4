"""Fine-tunes a LoRA adapter on chats: HANRAG's Revelator (Sec. 4.2, App. D), or all roles of all methods.

python -m training.lora.train --examples FILE --to OUT                   the embedded model
python -m training.lora.train --examples FILE --to OUT --base FOLDER     a model in transformers' format
python -m training.lora.train --examples FILE --to OUT --adapter FILE    goes on from an adapter (GGUF)

`OUT/adapter` is what vLLM serves (`--lora-modules NAME=OUT/adapter`), `OUT/adapter.gguf` what llama.cpp serves
(HOPGRAPH_EMBEDDED_LORA). An interrupted run, or one stopped by `--minutes`, continues when started again.
"""

from __future__ import annotations

import json
import sys
import time
import timeit
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inference.errors import InputError
from training.command import guarded, parser
from training.lora.batches import Example, batches, weighted
from training.lora.chats import Chat, read_chats
from training.lora.prompts import check_prompts

if TYPE_CHECKING:
    import torch
    from transformers import Trainer, TrainerCallback


@dataclass(frozen=True, slots=True)
class Recipe:
    """Settings of a run. What App. D does not give is LLaMA-Factory's default, which the paper trained with."""

    learning_rate: float = 1e-4
    epochs: float = 1.0
    schedule: str = "cosine"
    warmup: float = 0.1
    """Share of the steps."""
    rank: int = 8
    alpha: int = 16
    dropout: float = 0.0
    targets: str = "all-linear"
    batches: int = 4
    """Batches a step."""
    tokens: int = 3000
    """Tokens of a batch at most, padding included and a common beginning counted once."""
    length_exponent: float = 0.0
    """A reply of n tokens weighs each of them n**-length_exponent: 0 counts tokens alike, 1 replies."""
    max_length: int = 1024
    """Tokens; longer examples are left out, for a cut one would teach an unfinished reply."""
    gradient_tokens: int = 0
    """Last tokens of a prompt that gradients reach; 0: all. What comes before is read without: three times as fast."""
    seed: int = 0


PAPER = Recipe()
_FLAGS = {
    "epochs": "passes over the examples",
    "learning_rate": "the highest, after the warm-up",
    "rank": "of the adapter; alpha is twice as much",
    "batches": "batches a step",
    "tokens": "tokens of a batch at most",
    "length_exponent": "0: all tokens of replies count alike; 1: all replies",
    "max_length": "tokens; longer examples are left out",
    "gradient_tokens": "last tokens of a prompt that gradients reach; 0: all",
    "seed": "random seed",
}
"""Settings that the command line can change."""


def train(
    base: Path,
    examples: Path,
    to: Path,
    recipe: Recipe,
    *,
    adapter: Path | None = None,
    minutes: float | None = None,
) -> dict[str, Any]:
    """Train an adapter, going on from the last checkpoint in `to` if there is one.

    The loss is on the completions alone. A GPU is used if there is one. Numbers are bfloat16 where the GPU is made
    for it, or the processor faster with it.

    Args:
        base: A model and its tokenizer in transformers' format.
        examples: Chats, as `training.revelator.build` and `training.agents.build` write them.
        to: Folder of checkpoints and of the adapter.
        recipe: Settings.
        adapter: Where to begin, a GGUF file of the recipe's rank; a new adapter if not given.
        minutes: Stop, with a checkpoint, after so long.

    Returns:
        What was done: examples, steps, loss, seconds, and whether it is finished.

    Raises:
        InputError: The examples or the adapter can't be read, or the examples were built with other prompts than
            those of now.
    """
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainingArguments
    from transformers.trainer_utils import get_last_checkpoint

    from training.lora.gguf_files import read_lora

    check_prompts(examples)
    tokenizer = AutoTokenizer.from_pretrained(base)
    read = [tokens_of(tokenizer, chat) for chat in read_chats(examples)]
    rows = [row for row in read if len(row.prompt) + len(row.completion) <= recipe.max_length]
    if not rows:
        raise InputError(f"{examples}: no example has {recipe.max_length} tokens or fewer", hint="raise --max-length")
    gpu = torch.cuda.is_available()
    half = torch.cuda.is_bf16_supported() if gpu else _fast_bfloat16()
    torch.manual_seed(recipe.seed)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16 if half else torch.float32)
    lora = LoraConfig(
        r=recipe.rank,
        lora_alpha=recipe.alpha,
        lora_dropout=recipe.dropout,
        target_modules=recipe.targets,
        task_type="CAUSAL_LM",
    )
    model = get_peft_model(model, lora)
    if adapter is not None:
        read_lora(adapter, base, model)
    for module in model.modules():
        if hasattr(module, "cast_input_dtype_enabled"):
            module.cast_input_dtype_enabled = False  # autocast does it, without a copy of the inputs in float32
    arguments = TrainingArguments(
        output_dir=str(to / "checkpoints"),
        learning_rate=recipe.learning_rate,
        num_train_epochs=recipe.epochs,
        lr_scheduler_type=recipe.schedule,
        warmup_steps=recipe.warmup,
        per_device_train_batch_size=1,  # an item of the data is a batch
        gradient_accumulation_steps=recipe.batches,
        train_sampling_strategy="sequential",  # `batches` has shuffled
        bf16=half,
        use_cpu=not gpu,
        seed=recipe.seed,
        logging_steps=5,
        save_steps=25,
        save_total_limit=1,
        report_to="none",
        dataloader_pin_memory=gpu,
        remove_unused_columns=False,
        label_names=["labels"],
    )
    trainer = shared_prefix_trainer(recipe.gradient_tokens)(
        model=model,
        args=arguments,
        train_dataset=batches(weighted(rows, recipe.length_exponent), recipe.tokens, recipe.seed),
        data_collator=lambda items: padded(items[0], tokenizer.pad_token_id or 0),
        callbacks=[_stop_after(minutes)] if minutes else [],
    )
    folder = Path(arguments.output_dir)
    last = get_last_checkpoint(str(folder)) if folder.is_dir() else None
    started = time.perf_counter()
    outcome = trainer.train(resume_from_checkpoint=last)
    state = trainer.state
    losses = [entry["loss"] for entry in state.log_history if "loss" in entry]
    finished = state.global_step >= state.max_steps
    if finished:
        trainer.save_model(str(to / "adapter"))
    return {
        "examples": len(rows),
        "too_long": len(read) - len(rows),
        "steps": state.global_step,
        "of": state.max_steps,
        "finished": finished,
        "loss": [round(losses[0], 4), round(losses[-1], 4)] if losses else [],
        "seconds": round(time.perf_counter() - started, 1),
        "device": "cuda" if gpu else "cpu",
        "dtype": "bfloat16" if half else "float32",
        "mean_loss": round(outcome.training_loss, 4),
    }


def tokens_of(tokenizer: Any, chat: Chat) -> Example:
    """The tokens of a chat by the model's template; the completion's include the end of the turn."""
    prompt = tokenizer.apply_chat_template(chat["prompt"], add_generation_prompt=True, return_dict=True)["input_ids"]
    whole = tokenizer.apply_chat_template([*chat["prompt"], *chat["completion"]], return_dict=True)["input_ids"]
    if whole[: len(prompt)] != prompt:
        raise InputError(
            f"example {chat['id']}: the chat template writes the prompt otherwise where a reply follows",
            hint="train another model, or give it a plain template",
        )
    return Example(chat["skill"], tuple(prompt), tuple(whole[len(prompt) :]))


def padded(batch: Sequence[Example], pad: int) -> dict[str, torch.Tensor]:
    """A batch as tensors of shape (examples, tokens of the longest); labels are -100 outside of completions.

    `weights`, of shape (examples,), are those of their tokens in the loss.
    """
    import torch

    longest = max(len(row.prompt) + len(row.completion) for row in batch)
    ids = torch.full((len(batch), longest), pad)
    mask, labels = torch.zeros_like(ids), torch.full_like(ids, -100)
    for number, row in enumerate(batch):
        begin, end = len(row.prompt), len(row.prompt) + len(row.completion)
        ids[number, :end] = torch.tensor(row.prompt + row.completion)
        mask[number, :end] = 1
        labels[number, begin:end] = ids[number, begin:end]
    weights = torch.tensor([row.weight for row in batch])
    return {"input_ids": ids, "attention_mask": mask, "labels": labels, "weights": weights}


def shared_prefix_trainer(gradient_tokens: int = 0) -> type[Trainer]:
    """Transformers' trainer, which runs what all examples of a batch begin with through the model once.

    That is a skill's instructions, and the passages where several questions are asked about them. The loss is that of
    the whole, and so are the gradients unless `gradient_tokens` cuts them. Logits are computed where there is a label.

    Args:
        gradient_tokens: Last tokens of a prompt that gradients reach, 0 for all. What comes before is read without,
            as a constant: an approximation, as in truncated backpropagation.
    """
    import torch
    from torch.nn.functional import cross_entropy
    from transformers import Trainer

    class SharedPrefixTrainer(Trainer):
        """Reads a batch's common beginning once."""

        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            ids, mask, labels = inputs["input_ids"], inputs["attention_mask"], inputs["labels"]
            alike = ((ids == ids[:1]) & (labels == -100) & (mask == 1)).all(0)
            # Its last token stays with the rest: where prompts are the same, the completion's first token rests on it.
            shared = max(0, int(alike.long().cumprod(0).sum()) - 1) if len(ids) > 1 else 0
            groups = [(slice(None), shared)]
            if gradient_tokens:
                prompts = (mask.sum(1) - (labels != -100).sum(1)).tolist()
                alone = [max(0, prompt - gradient_tokens) for prompt in prompts]
                if len(ids) == 1 or _work(ids.numel(), len(ids) * shared, shared) > _work(
                    int(mask.sum()), sum(alone), sum(alone)
                ):
                    groups = [(slice(row, row + 1), begin) for row, begin in enumerate(alone)]
            causal = model.get_base_model() if hasattr(model, "get_base_model") else model
            losses = []
            for rows, begin in groups:
                longest = int(mask[rows].sum(1).max())
                part = tuple(tensor[rows, :longest] for tensor in (ids, mask, labels))
                losses.append(self._sum_of(causal, part, inputs["weights"][rows], begin))
            loss = torch.stack(losses).sum()
            loss = loss / (num_items_in_batch if num_items_in_batch is not None else (labels[:, 1:] != -100).sum())
            return (loss, {"loss": loss}) if return_outputs else loss

        def _sum_of(self, causal: Any, batch: tuple[Any, ...], weights: Any, shared: int) -> Any:
            """Summed loss of examples (ids, mask, labels) whose first `shared` tokens are the same."""
            ids, mask, labels = batch
            meant = labels[:, shared + 1 :]
            at = meant != -100
            with self.accelerator.autocast():
                cache = None
                if shared:
                    with torch.set_grad_enabled(not gradient_tokens):
                        cache = causal.model(input_ids=ids[:1, :shared], use_cache=True).past_key_values
                    cache.batch_repeat_interleave(len(ids))
                hidden = causal.model(
                    input_ids=ids[:, shared:], attention_mask=mask, past_key_values=cache, use_cache=bool(shared)
                ).last_hidden_state
                logits = causal.lm_head(hidden[:, :-1][at]).float()
            each = cross_entropy(logits, meant[at], reduction="none")
            return (each * weights[:, None].expand_as(meant)[at]).sum()

    return SharedPrefixTrainer


def _work(tokens: int, without: int, read: int) -> float:
    """Time of a batch, in that of a token with gradients: a token that is read without takes a third."""
    return tokens - without + read / 3


def _fast_bfloat16() -> bool:
    """Whether the processor multiplies faster in bfloat16: timed, for some that have instructions for it do not."""
    import torch

    def seconds(dtype: torch.dtype) -> float:
        one, other = torch.ones(512, 576, dtype=dtype), torch.ones(576, 1536, dtype=dtype)
        return min(timeit.repeat(lambda: one @ other, number=5, repeat=5))

    return seconds(torch.bfloat16) < seconds(torch.float32)


def _stop_after(minutes: float) -> TrainerCallback:
    from transformers import TrainerCallback

    until = time.monotonic() + 60 * minutes

    class StopAfter(TrainerCallback):
        """Ends a run in time, with a checkpoint."""

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            if time.monotonic() > until:
                control.should_save = control.should_training_stop = True
            return control

    return StopAfter()


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; gives the exit code."""
    flags = parser("lora.train", "Fine-tune a LoRA adapter on chats.")
    flags.add_argument("--examples", type=Path, required=True, help="a train.jsonl")
    flags.add_argument("--to", type=Path, required=True, help="folder of checkpoints and adapters")
    flags.add_argument("--base", default="smollm2", help="smollm2, a GGUF file, or a folder in transformers' format")
    for name, text in _FLAGS.items():
        usual = getattr(PAPER, name)
        flags.add_argument(f"--{name.replace('_', '-')}", type=type(usual), default=usual, help=text)
    flags.add_argument("--adapter", type=Path, help="go on from this adapter, a GGUF file of the same rank")
    flags.add_argument("--minutes", type=float, help="stop, with a checkpoint, after so long")
    options = flags.parse_args(arguments)
    return guarded(lambda: _train(options), "fine-tuning needs more packages: pip install -e '.[train-lora]'")


def _train(options: Namespace) -> str:
    from training.lora.gguf_files import base_folder, write_lora

    recipe = replace(PAPER, **{name: getattr(options, name) for name in _FLAGS}, alpha=2 * options.rank)
    options.to.mkdir(parents=True, exist_ok=True)
    base = base_folder(options.base, options.to)
    facts = train(base, options.examples, options.to, recipe, adapter=options.adapter, minutes=options.minutes)
    if facts["finished"]:
        facts["gguf"] = str(write_lora(options.to / "adapter", base, options.to / "adapter.gguf"))
    facts |= {"base": str(options.base), "recipe": asdict(recipe)}
    (options.to / "run.json").write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
    return json.dumps(facts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
