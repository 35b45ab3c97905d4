"""The answer extractor in torch: how it is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from inference.heads.pair_context import LIKENESS, allowed_spans, fresh_pieces, likeness, pair_halves
from inference.heads.scores import whole_words
from inference.heads.trunk import Array, Trunk, untrained_layers
from training.extractor_data import Example
from training.fitting import Schedule, fit
from training.layers import SpanHead, States, UpperLayers, array, padded, span_loss

SCHEDULE = Schedule(epochs=2, batch=16)
ANSWERED = 0.04
"""Share of held-out examples without an answer that may be answered."""


class SpanModel(nn.Module):
    """Upper encoder layers, a score of each stretch, and one of there being no answer, which stands at `[0, 0]`.

    A pair whose words are those of the question starts with an advantage: three layers compare pairs less well than
    they find the answer in one.
    """

    def __init__(self, upper: dict[str, Array]) -> None:
        super().__init__()
        self.upper = UpperLayers(upper)
        self.span = SpanHead()
        self.likeness = nn.Parameter(torch.full((LIKENESS,), 3.0))
        self.none = nn.Parameter(torch.tensor([4.0]))

    def take(self, start: Mapping[str, Array]) -> None:
        """Start from the weights of an earlier training."""
        with torch.no_grad():
            for name, values in self.upper.named_parameters():
                values.copy_(torch.from_numpy(start[name.replace("layers.", "").replace("parts.", "")]))
            self.span.edges.weight.copy_(torch.from_numpy(start["span"].T.copy()))
            self.span.edges.bias.copy_(torch.from_numpy(start["span_bias"]))
            self.span.start.weight.copy_(torch.from_numpy(start["span_from"].T.copy()))
            self.span.end.weight.copy_(torch.from_numpy(start["span_to"].T.copy()))
            self.likeness.copy_(torch.from_numpy(start["likeness"]))
            self.none.copy_(torch.from_numpy(start["none"][:1]))

    def scores(self, states: Tensor, real: Tensor, alike: Tensor) -> Tensor:
        """Scores, shape (texts, pieces, pieces); `alike`, shape (texts, pieces, LIKENESS), is of each piece's pair."""
        result: Tensor = self.span(functional.dropout(self.upper(states, real), 0.1, self.training))
        result = result + (alike @ self.likeness).float()[:, :, None]
        first = torch.zeros(result.shape[1:], dtype=torch.bool)
        first[0, 0] = True
        return result + first * self.none

    def arrays(self, shift: float, closest: float) -> dict[str, Array]:
        """The weights as `inference/heads/extractor.py` reads them.

        Args:
            shift: What the score of no answer gets on top of what was learnt.
            closest: What it loses where a pair's question has all words of the one asked.
        """
        none = torch.cat([self.none + shift, torch.tensor([closest])])
        own = {"likeness": array(self.likeness), "none": array(none)}
        return {**self.span.arrays(), **own, **self.upper.arrays()}


class Marked(NamedTuple):
    """An example as the model reads it."""

    span: tuple[int, int]
    """First and last word piece of the answer; (0, 0) where there is none."""
    allowed: NDArray[np.bool_]
    """What can be chosen: stretches, and `[0, 0]`."""
    alike: Array
    """Of each piece's pair, shape (pieces, LIKENESS)."""


def train(
    rows: Sequence[Example],
    held_out: Sequence[Example],
    schedule: Schedule = SCHEDULE,
    start: Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """Train the extractor.

    Args:
        rows: Examples with and without an answer in their context.
        held_out: Examples with and without an answer. The score of no answer is fitted on them so that `ANSWERED` of
            those without are answered.
        schedule: How long and how fast.
        start: Weights of an earlier training to start from; without them, the encoder's own layers.

    Returns:
        What `inference/heads/extractor.py` reads.
    """
    torch.manual_seed(schedule.seed)
    trunk = Trunk(threads=torch.get_num_threads())
    model = SpanModel(untrained_layers())
    if start:
        model.take(start)
    marked, states = _read(rows, trunk)
    spans = torch.tensor([one.span for one in marked])

    def loss(batch: NDArray[np.int64]) -> Tensor:
        scores, allowed = _scored(model, marked, states, batch)
        return span_loss(scores, allowed, *spans[batch].T)

    fit(model, loss, states.lengths, schedule, "training")
    return model.arrays(*_abstention(model, held_out, trunk))


def _read(rows: Sequence[Example], trunk: Trunk) -> tuple[list[Marked], States]:
    found = [(row, marked) for row in rows if (marked := mark(row, trunk))]
    return [marked for _, marked in found], States([(row.question, row.context) for row, _ in found], trunk)


def _scored(
    model: SpanModel, marked: Sequence[Marked], states: States, batch: NDArray[np.int64]
) -> tuple[Tensor, Tensor]:
    shown, real = states.batch(batch)
    alike = torch.zeros(*real.shape, LIKENESS)
    for row, number in enumerate(batch):
        alike[row, : len(marked[number].alike)] = torch.from_numpy(marked[number].alike)
    allowed = padded([marked[number].allowed for number in batch], real.shape[1])
    return model.scores(shown, real, alike), allowed


def _abstention(model: SpanModel, rows: Sequence[Example], trunk: Trunk) -> tuple[float, float]:
    """What the score of no answer gets on top, and what it loses by the closest pair's question.

    A logistic regression of "has an answer" on the margin of all answers over none and on the closest question's F1,
    the first measure of `likeness`, gives the second; the share of answers where there is none gives the first.
    Examples with a pair that asks the same do not count: they are always answered. Without examples of both kinds,
    nothing changes.
    """
    marked, states = _read([row for row in rows if likeness(row.question, row.context)[:, 0].max() < 1], trunk)
    answered = torch.tensor([one.span != (0, 0) for one in marked])
    if answered.all() or not answered.any():
        return 0.0, 0.0
    features = torch.stack([_margins(model, marked, states), torch.tensor([one.alike[:, 0].max() for one in marked])])
    weights = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=100)

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = functional.binary_cross_entropy_with_logits(weights[:2] @ features + weights[2], answered.float())
        loss.backward()
        return loss

    optimizer.step(step)
    closest = float((weights[1] / weights[0]).detach().clamp(min=0))
    unanswered = (features[0] + closest * features[1])[~answered]
    return float(torch.quantile(unanswered, 1 - ANSWERED)), closest


def _margins(model: SpanModel, marked: Sequence[Marked], states: States) -> Tensor:
    """How far the scores of all stretches together are above that of no answer, as learnt, by example."""
    margins = []
    with torch.no_grad():
        for start in range(0, len(marked), 16):
            batch = np.arange(start, min(start + 16, len(marked)))
            scores, allowed = _scored(model, marked, states, batch)
            none = scores[:, 0, 0].clone()
            allowed[:, 0, 0] = False
            margins.append(scores.masked_fill(~allowed, -1e4).flatten(1).logsumexp(1) - none)
    return torch.cat(margins)


def mark(row: Example, trunk: Trunk) -> Marked | None:
    """An example's answer in word pieces, and what else could be it.

    None when the answer is beyond what the encoder reads, longer than answers may be, or all words of the question.
    """
    encoding = trunk.pieces(row.question, row.context)
    halves, offsets = pair_halves(encoding.offsets, encoding.sequence_ids, row.context), np.array(encoding.offsets)
    allowed = allowed_spans(encoding.word_ids, halves, fresh_pieces(encoding, row.question, row.context))
    first = last = 0
    if row.start >= 0:
        starts, ends = whole_words(encoding.word_ids)
        touched = (halves >= 0) & (offsets[:, 1] > row.start) & (offsets[:, 0] < row.start + len(row.answer))
        if not touched.any():
            return None
        # The words that the answer is in, whole.
        first = int(np.flatnonzero(starts[: np.flatnonzero(touched)[0] + 1])[-1])
        last = int(np.flatnonzero(touched)[-1] + np.flatnonzero(ends[np.flatnonzero(touched)[-1] :])[0])
        if not allowed[first, last]:
            return None
    allowed[0, 0] = True
    pairs = likeness(row.question, row.context)
    alike = np.where(halves[:, None] >= 0, pairs[halves.clip(0) // 2], np.float32(0))
    return Marked((first, last), allowed, alike)
