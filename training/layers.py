"""The trained part of a head in torch: its input, upper encoder layers, the heads themselves, and their weights.

Mirrors `inference/heads/`, which runs the result without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn
from torch.nn import functional

from inference.heads.trunk import ATTENTION_HEADS, Array, Trunk

_WIDTH = 384
_console = Console(stderr=True)


class States:
    """The frozen trunk's states of many texts, computed once and stored as float16.

    Args:
        texts: Texts, or pairs of texts.
        trunk: The shared layers.
    """

    def __init__(self, texts: Sequence[str | tuple[str, str]], trunk: Trunk) -> None:
        pieces = [trunk.pieces(*((text,) if isinstance(text, str) else text)).ids for text in texts]
        self.lengths: NDArray[np.int64] = np.array([len(ids) for ids in pieces], np.int64)
        self._starts = np.concatenate([[0], np.cumsum(self.lengths)])
        self._values = np.empty((int(self._starts[-1]), _WIDTH), np.float16)
        # Batches of equal length need no padding, so that states do not depend on the batch.
        order = np.argsort(self.lengths, kind="stable")
        groups = [
            group[start : start + 32]
            for group in np.split(order, np.flatnonzero(np.diff(self.lengths[order])) + 1)
            for start in range(0, len(group), 32)
        ]
        for group in track(groups, "reading texts", console=_console, transient=True):
            for text, states in zip(group, trunk.batch([pieces[i] for i in group]), strict=True):
                self._values[self._starts[text] : self._starts[text + 1]] = states

    def batch(self, texts: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Padded states of the texts with these indices, shape (texts, pieces, 384), and their mask."""
        longest = int(self.lengths[texts].max())
        states = np.zeros((len(texts), longest, _WIDTH), np.float32)
        real = np.zeros((len(texts), longest), bool)
        for row, text in enumerate(texts):
            states[row, : self.lengths[text]] = self._values[self._starts[text] : self._starts[text + 1]]
            real[row, : self.lengths[text]] = True
        return torch.from_numpy(states), torch.from_numpy(real)


class _Layer(nn.Module):
    """One encoder layer."""

    def __init__(self, weights: dict[str, Array], dropout: float) -> None:
        super().__init__()
        self.parts = nn.ParameterDict({name: torch.from_numpy(array.copy()) for name, array in weights.items()})
        self.dropout = dropout

    def forward(self, states: Tensor, real: Tensor) -> Tensor:
        p = self.parts
        texts, pieces, width = states.shape
        projected = (states @ p["qkv"] + p["qkv_bias"]).view(texts, pieces, 3, ATTENTION_HEADS, -1)
        query, key, value = projected.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=real[:, None, None, :])
        mixed = mixed.transpose(1, 2).reshape(texts, pieces, width) @ p["out"] + p["out_bias"]
        states = self._normalised(states + functional.dropout(mixed, self.dropout, self.training), "norm1")
        wide = functional.gelu(states @ p["up"] + p["up_bias"]) @ p["down"] + p["down_bias"]
        return self._normalised(states + functional.dropout(wide, self.dropout, self.training), "norm2")

    def _normalised(self, states: Tensor, name: str) -> Tensor:
        p = self.parts
        return functional.layer_norm(states, (_WIDTH,), p[name], p[f"{name}_bias"], 1e-12)


class UpperLayers(nn.Module):
    """A head's own copy of the encoder's upper layers.

    Args:
        weights: Initial weights, as from `inference.heads.trunk.untrained_layers`.
        dropout: Dropout rate in training.
    """

    def __init__(self, weights: dict[str, Array], dropout: float = 0.1) -> None:
        super().__init__()
        layers = sorted({int(name.split(".")[0]) for name in weights})
        self.layers = nn.ModuleList(
            _Layer(
                {name.split(".")[1]: array for name, array in weights.items() if name.startswith(f"{layer}.")}, dropout
            )
            for layer in layers
        )

    def forward(self, states: Tensor, real: Tensor) -> Tensor:
        """States after these layers; shapes as from `States.batch`."""
        for layer in self.layers:
            states = layer(states, real)
        return states

    def arrays(self) -> dict[str, Array]:
        """The weights for `inference.heads`."""
        return {name.replace("layers.", "").replace("parts.", ""): array(p) for name, p in self.named_parameters()}


class ClassHead(nn.Module):
    """Class scores, with one hidden layer.

    Args:
        inputs: Input dimensions.
        classes: Number of classes.
    """

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(inputs, 128)
        self.scores = nn.Linear(128, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Scores, shape (texts, classes)."""
        hidden = functional.gelu(self.hidden(inputs), approximate="tanh")
        result: Tensor = self.scores(functional.dropout(hidden, 0.1, self.training))
        return result.float()

    def load(self, weights: Mapping[str, Array], hidden: str, scores: str) -> None:
        """Take weights that `arrays` gave under these names."""
        with torch.no_grad():
            for name, layer in ((hidden, self.hidden), (scores, self.scores)):
                layer.weight.copy_(torch.from_numpy(weights[name].T.copy()))
                layer.bias.copy_(torch.from_numpy(weights[f"{name}_bias"].copy()))

    def arrays(self, hidden: str, scores: str) -> dict[str, Array]:
        """The weights of both layers under these names, each with its `_bias`."""
        named = ((hidden, self.hidden), (scores, self.scores))
        return {
            key: array(value)
            for name, layer in named
            for key, value in ((name, layer.weight.T), (f"{name}_bias", layer.bias))
        }


def mean_state(states: Tensor, real: Tensor) -> Tensor:
    """Mean of each text's word pieces, shape (texts, 384)."""
    weights = real[..., None].float()
    return (states.float() * weights).sum(1) / weights.sum(1)


def pooled_texts(states: States, pool: Callable[[Tensor, Tensor], Tensor], width: int) -> Tensor:
    """Apply `pool` to all texts, in order, without gradients; shape (texts, width)."""
    result = torch.zeros(len(states.lengths), width)
    order = np.argsort(states.lengths, kind="stable")
    with torch.no_grad():
        for start in range(0, len(order), 32):
            batch = order[start : start + 32]
            result[batch] = pool(*states.batch(batch))
    return result


class SpanHead(nn.Module):
    """Span scores, as in `inference.heads.scores.SpanScores`."""

    def __init__(self) -> None:
        super().__init__()
        self.edges = nn.Linear(_WIDTH, 2)
        self.start = nn.Linear(_WIDTH, 64, bias=False)
        self.end = nn.Linear(_WIDTH, 64, bias=False)
        for part in (self.start, self.end):
            nn.init.normal_(part.weight, std=0.01)  # start and end scores dominate initially

    def forward(self, states: Tensor) -> Tensor:
        """Scores, shape (texts, pieces, pieces): first piece, last piece."""
        starts, ends = self.edges(states).float().unbind(-1)
        together: Tensor = (self.start(states) @ self.end(states).transpose(1, 2)).float()
        return together + starts[:, :, None] + ends[:, None, :]

    def arrays(self) -> dict[str, Array]:
        """The weights named in `inference.heads.scores.SPAN`."""
        return {
            "span": array(self.edges.weight.T),
            "span_bias": array(self.edges.bias),
            "span_from": array(self.start.weight.T),
            "span_to": array(self.end.weight.T),
        }


def span_loss(scores: Tensor, allowed: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
    """Mean cross-entropy over all allowed spans; scores and allowed have shape (texts, pieces, pieces)."""
    flat = scores.masked_fill(~allowed, -1e4).flatten(1)
    return functional.cross_entropy(flat, starts * scores.shape[2] + ends)


def padded(tables: Sequence[NDArray[np.bool_]], pieces: int) -> Tensor:
    """Pad square masks into one tensor, shape (texts, pieces, pieces)."""
    result = torch.zeros(len(tables), pieces, pieces, dtype=torch.bool)
    for row, table in enumerate(tables):
        result[row, : len(table), : len(table)] = torch.from_numpy(table)
    return result


def array(values: Tensor) -> Array:
    """A tensor's values for numpy."""
    result: Array = values.detach().float().numpy().copy()
    return result
