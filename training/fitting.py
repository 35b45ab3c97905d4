"""The training loop of all heads, with its schedule and a progress bar."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import Tensor, nn

from training.layers import UpperLayers


@dataclass(frozen=True, slots=True)
class Schedule:
    """Training schedule."""

    epochs: float = 3.0
    batch: int = 32
    rate: float = 2e-4
    """Peak learning rate of the encoder layers; linear warm-up over 6% of the steps, then linear decay to 0."""
    head_rate: float = 1e-3
    """The same for all other parameters."""
    weight_decay: float = 0.01
    seed: int = 0


def fit(
    module: nn.Module,
    loss: Callable[[NDArray[np.int64]], Tensor],
    lengths: NDArray[np.int64],
    schedule: Schedule,
    title: str,
) -> None:
    """Train a module in place, with a progress bar on stderr.

    Args:
        module: Its `UpperLayers`, if any, are trained at `rate`, the rest at `head_rate`.
        loss: Returns the mean loss of the examples with these indices.
        lengths: Word pieces of each example, for batches of similar length.
        schedule: The training schedule.
        title: Title of the progress bar.
    """
    upper = {id(p) for part in module.modules() if isinstance(part, UpperLayers) for p in part.parameters()}
    groups = [
        {"params": [p for p in module.parameters() if (id(p) in upper) == inside], "lr": rate}
        for inside, rate in ((True, schedule.rate), (False, schedule.head_rate))
    ]
    optimizer = torch.optim.AdamW([g for g in groups if g["params"]], weight_decay=schedule.weight_decay, fused=True)
    steps = math.ceil(len(lengths) / schedule.batch * schedule.epochs)
    warm_up = max(1, round(0.06 * steps))
    decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda at: min((at + 1) / warm_up, (steps - at) / steps))
    columns = (
        TextColumn(title),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[loss]}"),
    )
    batches = _batches(lengths, schedule)
    mean = 0.0
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=steps, loss="")
        module.train()
        for step in range(steps):
            with torch.autocast("cpu", torch.bfloat16):
                value = loss(next(batches))
            optimizer.zero_grad()
            value.backward()
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimizer.step()
            decay.step()
            mean = 0.98 * mean + 0.02 * value.item()
            progress.update(task, advance=1, loss=f"loss {mean / (1 - 0.98 ** (step + 1)):.3f}")
    module.eval()


def _batches(lengths: NDArray[np.int64], schedule: Schedule) -> Iterator[NDArray[np.int64]]:
    """Infinite: every epoch all examples once, in batches of similar length and random order."""
    random = np.random.default_rng(schedule.seed)
    while True:
        shuffled = random.permutation(len(lengths))
        pools = [shuffled[at : at + 50 * schedule.batch] for at in range(0, len(shuffled), 50 * schedule.batch)]
        batches = [
            pool[np.argsort(lengths[pool], kind="stable")][at : at + schedule.batch]
            for pool in pools
            for at in range(0, len(pool), schedule.batch)
        ]
        for number in random.permutation(len(batches)):
            yield batches[number]
