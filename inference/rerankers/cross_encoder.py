"""A cross-encoder in a folder: an ONNX export (model.onnx) of a sequence-classification model, with its tokenizer.

Such as BAAI/bge-reranker-base or cross-encoder/ms-marco-MiniLM-L6-v2, by `optimum-cli export onnx`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from inference.errors import InputError
from inference.onnx_folder import check_folder, open_model, open_tokenizer, run_model
from inference.rerankers.scores import Scores

if TYPE_CHECKING:
    from tokenizers import Encoding

VARIABLE = "HOPGRAPH_RERANK_MODEL"
LONGEST = 512
"""Maximum tokens of a query and a text; the longer of both is cut."""
LONGEST_QUERY = 1_000
"""Maximum characters of a query, so that it leaves room for the text."""
LONGEST_TEXT = 20_000
"""Maximum characters of a text that are tokenized."""
TOKENS_A_BATCH = 4_096
"""Padded tokens of a batch."""
_PADS = ("[PAD]", "<pad>")


def check_cross_encoder(folder: Path) -> None:
    """Check that a folder has the files of a cross-encoder.

    Raises:
        InputError: A file is missing.
    """
    check_folder(VARIABLE, folder, ("model.onnx", "tokenizer.json"))


@lru_cache(maxsize=2)
def open_cross_encoder(folder: Path) -> CrossEncoder:
    """The cross-encoder in a folder, one instance per process."""
    return CrossEncoder(folder)


class CrossEncoder:
    """A cross-encoder on onnxruntime. Thread-safe.

    The model has one logit a pair, or two of which the second is for "relevant".

    Raises:
        InputError: The folder's files can't be used.
    """

    def __init__(self, folder: Path) -> None:
        check_cross_encoder(folder)
        self._folder = folder
        self._tokenizer = open_tokenizer(folder, VARIABLE)
        pads = (self._tokenizer.token_to_id(token) for token in _PADS)
        self._pad = next((pad for pad in pads if pad is not None), 0)
        self._tokenizer.enable_truncation(LONGEST, strategy="longest_first")
        self._session = open_model(folder / "model.onnx", VARIABLE)
        self._output = self._session.get_outputs()[0].name

    @property
    def id(self) -> str:
        """The folder's name."""
        return self._folder.name

    def rerank(self, query: str, texts: Sequence[str]) -> Scores:
        """Scores of the texts: the model's logits. Batches hold texts of similar length.

        Raises:
            InputError: The model is no cross-encoder.
        """
        pairs = [(query[:LONGEST_QUERY], text[:LONGEST_TEXT]) for text in texts]
        encodings: list[Encoding] = self._tokenizer.encode_batch(pairs)
        order = sorted(range(len(texts)), key=lambda i: -len(encodings[i].ids))
        values = [0.0] * len(texts)
        while order:
            size = max(TOKENS_A_BATCH // max(len(encodings[order[0]].ids), 1), 1)
            batch, order = order[:size], order[size:]
            for i, value in zip(batch, self._logits([encodings[i] for i in batch]), strict=True):
                values[i] = value
        cut = sum(
            bool(encoding.overflowing) or len(text) > LONGEST_TEXT
            for encoding, text in zip(encodings, texts, strict=True)
        )
        return Scores(values, self.id, sum(len(encoding.ids) for encoding in encodings), cut)

    def _logits(self, encodings: Sequence[Encoding]) -> list[float]:
        shape = (len(encodings), max(len(encoding.ids) for encoding in encodings))
        ids, mask, types = np.full(shape, self._pad, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for row, encoding in enumerate(encodings):
            length = len(encoding.ids)
            ids[row, :length], mask[row, :length], types[row, :length] = encoding.ids, 1, encoding.type_ids
        given: dict[str, NDArray[Any]] = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        (logits,) = run_model(self._session, given, [self._output], self._folder)
        shaped = logits.shape in ((len(encodings), 1), (len(encodings), 2))
        if not shaped or not np.isfinite(logits).all():
            found = "has NaN or infinity" if shaped else f"has shape {logits.shape}, not one score a text"
            raise InputError(
                f"{VARIABLE}: {self._folder}: the model's output {found}",
                hint="export a cross-encoder with `--task text-classification`",
            )
        scores = logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
        return [float(score) for score in scores]
