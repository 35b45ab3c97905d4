"""Fine-tunes a Revelator: one LoRA adapter for all five skills (HANRAG, Sec. 4.2 and App. D).

python -m training.revelator.train --examples DATA --to OUT                   the embedded model
python -m training.revelator.train --examples DATA --to OUT --base FOLDER     a model in transformers' format

`OUT/adapter` is what vLLM serves (`--lora-modules revelator=OUT/adapter`), `OUT/adapter.gguf` what llama.cpp serves
(HOPGRAPH_EMBEDDED_LORA). An interrupted run, or one stopped by `--minutes`, continues when started again.
"""

from __future__ import annotations

import json
import random
import sys
import time
from argparse import Namespace
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inference.errors import InputError
from training.command import guarded, parser
from training.revelator.chat import Chat, prompt_hash, read_chats

if TYPE_CHECKING:
    from transformers import TrainerCallback
    from trl import SFTTrainer


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
    batch: int = 16
    """Examples a step."""
    per_device: int = 8
    """Of them, at a time."""
    max_length: int = 1024
    """Tokens; longer examples are left out, for a cut one would teach an unfinished reply."""
    seed: int = 0


PAPER = Recipe()
_FLAGS = {
    "epochs": "passes over the examples",
    "learning_rate": "the highest, after the warm-up",
    "rank": "of the adapter; alpha is twice as much",
    "batch": "examples a step",
    "per_device": "of them, at a time",
    "max_length": "tokens; longer examples are left out",
    "seed": "random seed",
}
"""Settings that the command line can change."""


def train(base: Path, examples: Path, to: Path, recipe: Recipe, *, minutes: float | None = None) -> dict[str, Any]:
    """Train an adapter, going on from the last checkpoint in `to` if there is one.

    The loss is on the completions alone. A GPU is used if there is one. Numbers are bfloat16 where the GPU, or the
    processor, is made for it.

    Args:
        base: A model and its tokenizer in transformers' format.
        examples: Chats, as `training.revelator.build` writes them.
        to: Folder of checkpoints and of the adapter.
        recipe: Settings.
        minutes: Stop, with a checkpoint, after so long.

    Returns:
        What was done: examples, steps, loss, seconds, and whether it is finished.

    Raises:
        InputError: The examples can't be read, or were built with other prompts than those of now.
    """
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.trainer_utils import get_last_checkpoint
    from trl import SFTConfig

    _check_prompts(examples)
    tokenizer = AutoTokenizer.from_pretrained(base)
    rows = [chat for chat in read_chats(examples) if _length(tokenizer, chat) <= recipe.max_length]
    if not rows:
        raise InputError(f"{examples}: no example has {recipe.max_length} tokens or fewer", hint="raise --max-length")
    rows = by_skill(rows, recipe.per_device, recipe.seed)
    data = Dataset.from_list([{"prompt": chat["prompt"], "completion": chat["completion"]} for chat in rows])
    gpu = torch.cuda.is_available()
    half = torch.cuda.is_bf16_supported() if gpu else _fast_bfloat16()
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16 if half else torch.float32)
    config = SFTConfig(
        output_dir=str(to / "checkpoints"),
        learning_rate=recipe.learning_rate,
        num_train_epochs=recipe.epochs,
        lr_scheduler_type=recipe.schedule,
        warmup_steps=recipe.warmup,
        per_device_train_batch_size=recipe.per_device,
        gradient_accumulation_steps=max(1, recipe.batch // recipe.per_device),
        max_length=recipe.max_length,
        completion_only_loss=True,
        gradient_checkpointing=False,
        train_sampling_strategy="sequential",  # `by_skill` has shuffled
        bf16=half,
        use_cpu=not gpu,
        seed=recipe.seed,
        logging_steps=5,
        save_steps=25,
        save_total_limit=1,
        report_to="none",
        dataloader_pin_memory=gpu,
    )
    lora = LoraConfig(
        r=recipe.rank,
        lora_alpha=recipe.alpha,
        lora_dropout=recipe.dropout,
        target_modules=recipe.targets,
        task_type="CAUSAL_LM",
    )
    trainer = shared_prefix_trainer()(
        model=model,
        args=config,
        train_dataset=data,
        processing_class=tokenizer,
        peft_config=lora,
        callbacks=[_stop_after(minutes)] if minutes else [],
    )
    last = get_last_checkpoint(config.output_dir) if Path(config.output_dir).is_dir() else None
    started = time.perf_counter()
    outcome = trainer.train(resume_from_checkpoint=last)
    state = trainer.state
    losses = [entry["loss"] for entry in state.log_history if "loss" in entry]
    finished = state.global_step >= state.max_steps
    if finished:
        trainer.save_model(str(to / "adapter"))
    return {
        "examples": len(rows),
        "steps": state.global_step,
        "of": state.max_steps,
        "finished": finished,
        "loss": [round(losses[0], 4), round(losses[-1], 4)] if losses else [],
        "seconds": round(time.perf_counter() - started, 1),
        "device": "cuda" if gpu else "cpu",
        "dtype": "bfloat16" if half else "float32",
        "mean_loss": round(outcome.training_loss, 4),
    }


def by_skill(chats: Sequence[Chat], size: int, seed: int) -> list[Chat]:
    """Chats in random order, but `size` of one skill at a time: they begin with the same words."""
    dice = random.Random(seed)  # noqa: S311
    of: dict[str, list[Chat]] = defaultdict(list)
    for chat in dice.sample(list(chats), len(chats)):
        of[chat["skill"]].append(chat)
    groups = [rows[start : start + size] for rows in of.values() for start in range(0, len(rows), size)]
    # What is left of each skill would shift those after it: it comes last.
    groups.sort(key=lambda group: (len(group) < size, dice.random()))
    return [chat for group in groups for chat in group]


def shared_prefix_trainer() -> type[SFTTrainer]:
    """TRL's trainer, which runs what all examples of a batch begin with through the model once.

    A skill's instructions are some three quarters of its examples. The loss and the gradients are those of the whole.
    """
    from torch.nn.functional import cross_entropy
    from trl import SFTTrainer

    class SharedPrefixTrainer(SFTTrainer):
        """Reads a batch's common beginning once."""

        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            ids, mask, labels = inputs["input_ids"], inputs["attention_mask"], inputs["labels"]
            alike = ((ids == ids[:1]) & (labels == -100) & (mask == 1)).all(0)
            # Its last token stays with the rest: where prompts are the same, the completion's first token rests on it.
            shared = int(alike.long().cumprod(0).sum()) - 1
            if return_outputs or len(ids) == 1 or shared < 1 or model is not self.model:
                return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
            cache = model(input_ids=ids[:1, :shared], use_cache=True, logits_to_keep=1).past_key_values
            cache.batch_repeat_interleave(len(ids))
            logits = model(input_ids=ids[:, shared:], attention_mask=mask, past_key_values=cache, use_cache=True).logits
            meant = labels[:, shared + 1 :]
            loss = cross_entropy(
                logits[:, :-1].float().flatten(0, 1), meant.flatten(), ignore_index=-100, reduction="sum"
            )
            return loss / (num_items_in_batch if num_items_in_batch is not None else (meant != -100).sum())

    return SharedPrefixTrainer


def _check_prompts(examples: Path) -> None:
    """The file of facts beside the examples says which prompts they were made with."""
    try:
        facts = json.loads((examples.parent / "build.json").read_text("utf-8"))
    except (OSError, ValueError):
        return  # examples from elsewhere
    if isinstance(facts, dict) and facts.get("prompts", prompt_hash()) != prompt_hash():
        raise InputError(
            f"{examples} was built with other prompts than those of now",
            hint="build it again: python -m training.revelator.build",
        )


def _length(tokenizer: Any, chat: Chat) -> int:
    """Tokens of a chat."""
    return len(tokenizer.apply_chat_template([*chat["prompt"], *chat["completion"]], return_dict=True)["input_ids"])


def _fast_bfloat16() -> bool:
    """Whether the processor multiplies in bfloat16; one that does not is many times slower with it."""
    import torch

    check = getattr(torch.cpu, "_is_amx_tile_supported", None)
    return bool(check and check())


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
    flags = parser("revelator.train", "Fine-tune a Revelator.")
    flags.add_argument("--examples", type=Path, required=True, help="train.jsonl of training.revelator.build")
    flags.add_argument("--to", type=Path, required=True, help="folder of checkpoints and adapters")
    flags.add_argument("--base", default="smollm2", help="smollm2, a GGUF file, or a folder in transformers' format")
    for name, text in _FLAGS.items():
        usual = getattr(PAPER, name)
        flags.add_argument(f"--{name.replace('_', '-')}", type=type(usual), default=usual, help=text)
    flags.add_argument("--minutes", type=float, help="stop, with a checkpoint, after so long")
    options = flags.parse_args(arguments)
    return guarded(lambda: _train(options), "fine-tuning needs more packages: pip install -e '.[train-revelator]'")


def _train(options: Namespace) -> str:
    from training.revelator.gguf_files import base_folder, write_lora

    recipe = replace(PAPER, **{name: getattr(options, name) for name in _FLAGS}, alpha=2 * options.rank)
    recipe = replace(recipe, per_device=min(recipe.per_device, recipe.batch))
    options.to.mkdir(parents=True, exist_ok=True)
    base = base_folder(options.base, options.to)
    facts = train(base, options.examples, options.to, recipe, minutes=options.minutes)
    if facts["finished"]:
        facts["gguf"] = str(write_lora(options.to / "adapter", base, options.to / "adapter.gguf"))
    facts |= {"base": str(options.base), "recipe": asdict(recipe)}
    (options.to / "run.json").write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
    return json.dumps(facts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
