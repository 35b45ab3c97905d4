"""The hop predictor in torch: training, and ablation of its features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from inference.heads.hops import SurfaceFeatures, prepared, surface_features
from inference.heads.trunk import Array, Trunk, untrained_layers
from training.fitting import Schedule, fit
from training.hop_data import Labelled
from training.layers import ClassHead, States, UpperLayers, array, mean_state, pooled_texts

SCHEDULE = Schedule(epochs=2)
PIECES_HIDDEN = 0.1
"""Share of word pieces masked from the upper layers in training, against memorising names and phrases that recur in
MuSiQue's training questions."""

Numbers = NDArray[np.int64]


class HopModel(nn.Module):
    """Upper encoder layers, mean pooling, and a head of one hidden layer over encoding and surface features.

    Args:
        upper: Initial weights; None for a head without layers, which takes pooled encodings.
        inputs: Input dimensions of the head: 384 of the encoding, and the surface features.
    """

    def __init__(self, upper: dict[str, Array] | None, inputs: int) -> None:
        super().__init__()
        self.upper = UpperLayers(upper) if upper is not None else None
        self.scores = ClassHead(inputs, 4)

    def pooled(self, states: Tensor, real: Tensor) -> Tensor:
        """Encodings, shape (texts, 384)."""
        assert self.upper is not None  # noqa: S101
        return mean_state(self.upper(states, real), real)

    def arrays(self) -> dict[str, Array]:
        """The weights as `inference/heads/hops.py` reads them."""
        return self.scores.arrays("hidden", "hops") | (self.upper.arrays() if self.upper else {})


def train(rows: Sequence[Labelled], schedule: Schedule = SCHEDULE, without: Sequence[str] = ()) -> dict[str, Array]:
    """Train the predictor.

    Args:
        rows: Questions with their hop counts.
        schedule: The training schedule.
        without: Surface features to blank, here and in the weights.

    Returns:
        Weights for `inference/heads/hops.py`.
    """
    torch.manual_seed(schedule.seed)
    raw = _surface(rows)
    mean, deviation = raw.mean(axis=0), np.maximum(raw.std(axis=0), 1e-3)
    # A blanked feature has an infinite deviation: the head always gets 0.
    deviation[[SurfaceFeatures._fields.index(name) for name in without]] = np.inf
    features = torch.from_numpy((raw - mean) / deviation)
    states = States([prepared(row.question) for row in rows], Trunk(threads=torch.get_num_threads()))
    targets = torch.tensor([row.hops - 1 for row in rows])
    weights = _class_weights(targets)
    model = HopModel(untrained_layers(), 384 + features.shape[1])

    def loss(batch: Numbers) -> Tensor:
        shown, real = states.batch(batch)
        real = real & (torch.rand(real.shape) >= PIECES_HIDDEN)
        real[:, 0] = True  # at least one piece stays visible
        inputs = torch.cat([model.pooled(shown, real), features[batch]], dim=1)
        return _loss(model.scores(inputs), targets[batch], weights)

    fit(model, loss, states.lengths, schedule, "training")
    return {**model.arrays(), "features.mean": mean, "features.deviation": deviation}


def feature_worth(
    weights: dict[str, Array], rows: Sequence[Labelled], tested: Sequence[Labelled]
) -> dict[tuple[str, str], Array]:
    """Train heads on subsets of the features, with the encoding of given upper layers or without.

    Args:
        weights: Trained upper layers.
        rows: Questions to train on.
        tested: Questions to predict.

    Returns:
        For each encoding (`trained`, `frozen`: the original encoder, `none`) and each choice of surface features,
        the probabilities of the tested questions, shape (tested, 4).
    """
    everything = [*rows, *tested]
    raw = _surface(everything)
    surface = torch.from_numpy((raw - raw[: len(rows)].mean(axis=0)) / np.maximum(raw[: len(rows)].std(axis=0), 1e-3))
    states = States([prepared(row.question) for row in everything], Trunk(threads=torch.get_num_threads()))
    targets = torch.tensor([row.hops - 1 for row in rows])
    encodings = {
        "trained": _encoded({k: v for k, v in weights.items() if k[0].isdigit()}, states),
        "frozen": _encoded(untrained_layers(), states),
        "none": torch.zeros(len(everything), 0),
    }
    names = SurfaceFeatures._fields
    choices = {"all four": names, **{f"without {name}": tuple(n for n in names if n != name) for name in names}}
    choices |= {f"only {name}": (name,) for name in names} | {"no surface feature": ()}
    result = {}
    for encoding, vectors in encodings.items():
        for title, chosen in choices.items():
            if chosen or vectors.shape[1]:
                inputs = torch.cat([vectors, surface[:, [names.index(name) for name in chosen]]], dim=1)
                result[encoding, title] = _head_alone(inputs, targets, f"{encoding} encoding, {title}")
    return result


def _head_alone(inputs: Tensor, targets: Tensor, title: str) -> Array:
    """Train a head on the first inputs, which have targets; returns the probabilities of the others."""
    torch.manual_seed(0)
    model = HopModel(None, inputs.shape[1])
    schedule = Schedule(epochs=6, batch=128, head_rate=2e-3)
    known, weights = len(targets), _class_weights(targets)

    def loss(batch: Numbers) -> Tensor:
        return _loss(model.scores(inputs[batch]), targets[batch], weights)

    fit(model, loss, np.ones(known, np.int64), schedule, title)
    with torch.no_grad():
        return array(torch.softmax(model.scores(inputs[known:]), dim=1))


def _encoded(upper: dict[str, Array], states: States) -> Tensor:
    """Pooled encodings, in the order of the states, scaled to a mean square of 1."""
    with torch.autocast("cpu", torch.bfloat16):
        result = pooled_texts(states, HopModel(upper, 384).eval().pooled, 384)
    return result / result.square().mean().sqrt()


def _surface(rows: Sequence[Labelled]) -> Array:
    return np.array(surface_features([row.question for row in rows]), np.float32)


def _class_weights(targets: Tensor) -> Tensor:
    """Class weights that give each class a total weight of the root of its size."""
    counts = torch.bincount(targets, minlength=4).clamp(min=1).float()
    weights = counts.rsqrt()
    return weights / (weights * counts).sum() * counts.sum()


def _loss(scores: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    return functional.cross_entropy(scores.float(), targets, weight=weights, label_smoothing=0.05)
