"""The answer extractor in torch: how it is trained."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from inference.extractor import allowed_spans, answer_pieces, likeness
from inference.heads.scores import whole_words
from inference.heads.trunk import Array, Trunk, untrained_layers
from training.extractor_data import Example
from training.layers import Schedule, SpanHead, States, UpperLayers, array, fit, padded, span_loss

__all__ = ["SCHEDULE", "SpanModel", "spans_of_pieces", "train"]

SCHEDULE = Schedule(epochs=2, batch=16)


class SpanModel(nn.Module):
    """Upper encoder layers, and a score of each stretch.

    A pair whose words are those of the question starts with an advantage: three layers compare pairs less well than
    they find the answer in one.
    """

    def __init__(self, upper: dict[str, Array]) -> None:
        super().__init__()
        self.upper = UpperLayers(upper)
        self.span = SpanHead()
        self.likeness = nn.Parameter(torch.tensor([4.0, 4.0]))

    def scores(self, states: Tensor, real: Tensor, alike: Tensor) -> Tensor:
        """Scores, shape (texts, pieces, pieces); `alike`, shape (texts, pieces, 2), is of each piece's pair."""
        result: Tensor = self.span(functional.dropout(self.upper(states, real), 0.1, self.training))
        return result + (alike @ self.likeness).float()[:, :, None]

    def arrays(self) -> dict[str, Array]:
        """The weights as `inference/heads/extractor.py` reads them."""
        return {**self.span.arrays(), "likeness": array(self.likeness), **self.upper.arrays()}


def train(rows: Sequence[Example], schedule: Schedule = SCHEDULE) -> dict[str, Array]:
    """Train the extractor.

    Args:
        rows: Examples whose answer is in their context.
        schedule: How long and how fast.

    Returns:
        What `inference/heads/extractor.py` reads.
    """
    torch.manual_seed(schedule.seed)
    trunk = Trunk(threads=torch.get_num_threads())
    found = [spans_of_pieces(row, trunk) for row in rows]
    kept = [i for i, span in enumerate(found) if span is not None]
    spans = torch.tensor([span[:2] for span in found if span is not None])
    pairs, words = [span[2] for span in found if span is not None], [span[3] for span in found if span is not None]
    alikes = [likeness(rows[i].question, rows[i].context) for i in kept]
    states = States([(rows[i].question, rows[i].context) for i in kept], trunk)
    model = SpanModel(untrained_layers())

    def loss(batch: NDArray[np.int64]) -> Tensor:
        shown, real = states.batch(batch)
        alike = torch.zeros(*real.shape, 2)
        for row, number in enumerate(batch):
            own = pairs[number]
            alike[row, : len(own)] = torch.from_numpy(alikes[number][own.clip(0)])
        allowed = padded([allowed_spans(words[number], pairs[number]) for number in batch], real.shape[1])
        return span_loss(model.scores(shown, real, alike), allowed, *spans[batch].T)

    fit(model, loss, states.lengths, schedule, "training")
    return model.arrays()


def spans_of_pieces(row: Example, trunk: Trunk) -> tuple[int, int, NDArray[np.int64], list[int | None]] | None:
    """First and last word piece of an example's answer; which pair's answer and which word each piece is of.

    None when the answer is beyond what the encoder reads, longer than answers may be, or in no pair's answer.
    """
    encoding = trunk.pieces(row.question, row.context)
    pairs, offsets = answer_pieces(encoding, row.context), np.array(encoding.offsets)
    starts, ends = whole_words(encoding.word_ids)
    touched = (pairs >= 0) & (offsets[:, 1] > row.start) & (offsets[:, 0] < row.start + len(row.answer))
    if not touched.any():
        return None
    # The words that the answer is in, whole.
    first = int(np.flatnonzero(starts[: np.flatnonzero(touched)[0] + 1])[-1])
    last = int(np.flatnonzero(touched)[-1] + np.flatnonzero(ends[np.flatnonzero(touched)[-1] :])[0])
    fits = allowed_spans(encoding.word_ids, pairs)[first, last]
    return (first, last, pairs, encoding.word_ids) if fits else None
