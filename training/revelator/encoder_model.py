"""The Revelator's encoder in torch: how it is trained, and how its probabilities are calibrated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from inference.heads.revelator import SKILLS, as_text, likeness, prepared
from inference.heads.trunk import Array, Trunk, untrained_layers
from training.fitting import Schedule, fit
from training.layers import ClassHead, States, UpperLayers, array, mean_state, pooled_texts
from training.revelator.encoder_data import label_of, passage_of
from training.revelator.examples import Example

SCHEDULE = Schedule(epochs=1)

Numbers = NDArray[np.int64]


class RevelatorModel(nn.Module):
    """Upper encoder layers, and a head for each skill.

    Args:
        upper: Weights to start from.
        skills: Skills, all of them or some.
    """

    def __init__(self, upper: dict[str, Array], skills: Sequence[str]) -> None:
        super().__init__()
        self.upper = UpperLayers(upper)
        self.heads = nn.ModuleDict({skill: ClassHead(2 * 384, SKILLS[skill]) for skill in skills})
        self.likeness = nn.Parameter(torch.zeros(1), requires_grad=False)

    def pooled(self, states: Tensor, real: Tensor) -> Tensor:
        """What the heads are given, shape (texts, 768)."""
        above = self.upper(states, real).float()
        return torch.cat([above[:, 0], mean_state(above, real)], dim=1)

    def arrays(self) -> dict[str, Array]:
        """The weights as `inference/heads/revelator.py` reads them."""
        own: dict[str, Array] = {"relevance.likeness": array(self.likeness)}
        for skill, head in self.heads.items():
            own |= head.arrays(f"{skill}.hidden", f"{skill}.scores")
        return own | self.upper.arrays()


@dataclass(frozen=True)
class _Rows:
    """Examples with what is trained on of each."""

    states: States
    skills: list[str]
    targets: Tensor

    @classmethod
    def of(cls, examples: Sequence[Example], trunk: Trunk) -> _Rows:
        states = States([as_input(example) for example in examples], trunk)
        targets = torch.tensor([label_of(example) for example in examples])
        return cls(states, [example.skill for example in examples], targets)


def as_input(example: Example) -> str | tuple[str, str]:
    """What the encoder reads of an example, as `inference/heads/revelator.py` has it."""
    asked = prepared(example.question)
    if example.skill == "relevance":
        return asked, passage_of(example)
    if example.skill == "ending":
        return asked, as_text([(turn.question, turn.answer) for turn in example.turns])
    return asked


def train(
    known: Sequence[Example],
    calibration: Sequence[Example],
    schedule: Schedule = SCHEDULE,
    start: Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """Train the encoder with a head for each skill that examples are given of, and calibrate them.

    Args:
        known: Examples to train on.
        calibration: Others, to calibrate on.
        schedule: How long and how fast.
        start: Trained weights to start from; without, the upper layers are the encoder's own and the heads are new.

    Returns:
        What `inference/heads/revelator.py` reads.
    """
    torch.manual_seed(schedule.seed)
    trunk = Trunk(threads=torch.get_num_threads())
    rows = _Rows.of(known, trunk)
    layers = {name: part for name, part in (start or untrained_layers()).items() if name[:1].isdigit()}
    model = RevelatorModel(layers, sorted(set(rows.skills)))
    if start:
        for skill, head in model.heads.items():
            head.load(start, f"{skill}.hidden", f"{skill}.scores")

    def loss(batch: Numbers) -> Tensor:
        pooled = model.pooled(*rows.states.batch(batch))
        losses = []
        for skill, head in model.heads.items():
            own = [place for place, number in enumerate(batch) if rows.skills[number] == skill]
            if own:
                losses.append(_loss(head(pooled[own]), rows.targets[batch[own]]) * len(own))
        return torch.stack(losses).sum() / len(batch)

    fit(model, loss, rows.states.lengths, schedule, "training")
    alike = [likeness(row.question, passage_of(row)) if row.skill == "relevance" else 0.0 for row in calibration]
    _calibrate(model, _Rows.of(calibration, trunk), torch.tensor(alike))
    return model.arrays()


def _loss(scores: Tensor, targets: Tensor) -> Tensor:
    if scores.shape[1] == 1:
        return functional.binary_cross_entropy_with_logits(scores[:, 0], targets.float())
    return functional.cross_entropy(scores, targets)


def _calibrate(model: RevelatorModel, rows: _Rows, alike: Tensor) -> None:
    """Scale and shift each head's scores so that its probabilities are right on rows that it was not trained on.

    Platt's method; of several scores (routes) only the scale is fitted, for relevance also what likeness weighs. The
    result goes into the head's last layer.

    Args:
        model: The trained model; it is changed.
        rows: What to fit on.
        alike: How alike question and passage are, for each row; 0 where the skill is another.
    """
    pooled = pooled_texts(rows.states, model.eval().pooled, 2 * 384)
    for skill, head in model.heads.items():
        own = [number for number, name in enumerate(rows.skills) if name == skill]
        with torch.no_grad():
            scores, targets = head(pooled[own]), rows.targets[own]
        shift, scale, weight = (torch.zeros(1, requires_grad=True) for _ in range(3))
        fitted = [scale, shift] if SKILLS[skill] == 1 else [scale]
        if skill == "relevance":
            fitted.append(weight)
        optimizer = torch.optim.LBFGS(fitted, max_iter=50, line_search_fn="strong_wolfe")

        def closure(
            scores: Tensor = scores,
            targets: Tensor = targets,
            own: list[int] = own,
            scale: Tensor = scale,
            shift: Tensor = shift,
            weight: Tensor = weight,
            optimizer: torch.optim.Optimizer = optimizer,
        ) -> Tensor:
            optimizer.zero_grad()
            value = _loss(scores * scale.exp() + shift + weight * alike[own][:, None], targets)
            value.backward()
            return value

        if own:
            optimizer.step(closure)
        with torch.no_grad():
            head.scores.weight.mul_(scale.exp())
            head.scores.bias.mul_(scale.exp()).add_(shift)
            if skill == "relevance":
                model.likeness.copy_(weight)
