"""Training of the sub-question rewriter in torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from inference.heads.rewriter import FORMS, allowed_spans
from inference.heads.trunk import Array, Trunk, untrained_layers
from training.fitting import Schedule, fit
from training.layers import SpanHead, States, UpperLayers, array, padded, span_loss
from training.rewriter_data import Example, gold_edit

SCHEDULE = Schedule(epochs=3)


class EditModel(nn.Module):
    """Upper encoder layers, span scores, and scores of the replacement's forms."""

    def __init__(self, upper: dict[str, Array]) -> None:
        super().__init__()
        self.upper = UpperLayers(upper)
        self.span = SpanHead()
        self.form = nn.Linear(3 * 384, len(FORMS))

    def arrays(self) -> dict[str, Array]:
        """The weights for `inference/heads/rewriter.py`."""
        form = {"form": array(self.form.weight.T), "form_bias": array(self.form.bias)}
        return self.span.arrays() | form | self.upper.arrays()


def train(rows: Sequence[Example], schedule: Schedule = SCHEDULE) -> dict[str, Array]:
    """Train the rewriter.

    Args:
        rows: Examples that a single edit explains.
        schedule: The training schedule.

    Returns:
        Weights for `inference/heads/rewriter.py`.
    """
    torch.manual_seed(schedule.seed)
    trunk = Trunk(threads=torch.get_num_threads())
    found = [_target(row, trunk) for row in rows]
    kept = [i for i, target in enumerate(found) if target is not None]
    targets = torch.tensor([target[:3] for target in found if target is not None])
    spans = [target[3] for target in found if target is not None]
    states = States([(rows[i].question, rows[i].answer) for i in kept], trunk)
    model = EditModel(untrained_layers())

    def loss(batch: NDArray[np.int64]) -> Tensor:
        shown, real = states.batch(batch)
        starts, ends, forms = targets[batch].T
        above = functional.dropout(model.upper(shown, real), 0.1, model.training)
        texts = torch.arange(len(batch))
        edges = torch.cat([above[:, 0], above[texts, starts], above[texts, ends]], dim=1)
        allowed = padded([spans[number] for number in batch], real.shape[1])
        return span_loss(model.span(above), allowed, starts, ends) + functional.cross_entropy(
            model.form(edges).float(), forms
        )

    fit(model, loss, states.lengths, schedule, "training")
    return model.arrays()


def _target(row: Example, trunk: Trunk) -> tuple[int, int, int, NDArray[np.bool_]] | None:
    """First and last word piece of the replaced span, the form, and the mask of `allowed_spans`."""
    edit, encoding = gold_edit(row), trunk.pieces(row.question, row.answer)
    if edit is None:
        return None
    own = [i for i, text in enumerate(encoding.sequence_ids) if text == 0]
    replaced = [i for i in own if encoding.offsets[i][1] > edit.start and encoding.offsets[i][0] < edit.end]
    if not replaced:
        return None
    allowed = allowed_spans(encoding.word_ids, encoding.sequence_ids)
    return (replaced[0], replaced[-1], edit.form, allowed) if allowed[replaced[0], replaced[-1]] else None
