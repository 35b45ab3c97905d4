"""ONNX graphs of the built-in encoder's parts: subgraphs extracted from its file, and transformer layers built here.

The exported layers have masks that are not needed here, and multiply in float32 regardless of the weights' type.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

ATTENTION_HEADS = 12
"""Attention heads per layer, of dimension 32."""
STATES_IN, STATES_OUT = "below", "above"
"""Input and output of layers, both of shape (texts, pieces, 384)."""
_WIDTH = 384
_EPSILON = 1e-12
_OPSET, _FORMAT = 17, 10

# An ONNX file is a protobuf message; this is the subset of protobuf needed to read and write it.
_MODEL_FORMAT, _MODEL_GRAPH, _MODEL_OPSETS = 1, 7, 8
_GRAPH_NODE, _GRAPH_NAME, _GRAPH_INITIALIZER, _GRAPH_INPUT, _GRAPH_OUTPUT = 1, 2, 5, 11, 12
_NODE_INPUT, _NODE_OUTPUT, _NODE_OPERATOR, _NODE_ATTRIBUTE, _NODE_DOMAIN = 1, 2, 4, 5, 7
_ATTRIBUTE_NAME, _ATTRIBUTE_FLOAT, _ATTRIBUTE_INT, _ATTRIBUTE_INTS, _ATTRIBUTE_TYPE = 1, 2, 3, 8, 20
_TENSOR_DIMS, _TENSOR_TYPE, _TENSOR_NAME, _TENSOR_BYTES = 1, 2, 8, 9
_FLOAT = 1
_TYPES = {"f4": _FLOAT, "u1": 2, "i1": 3, "i8": 7}
_FUSED = "com.microsoft"
"""Domain of onnxruntime's own operators."""


def layers_model(weights: Mapping[str, Array], count: int, *, int8: bool = False) -> bytes:
    """A stack of transformer layers as an ONNX model. The texts of a batch have the same number of word pieces.

    Args:
        weights: Named as `inference.heads.trunk.untrained_layers` names them.
        count: How many layers.
        int8: Multiply in int8: faster; states differ by about 1 %. Each word piece is quantized separately, so that
            results do not depend on the rest of the batch.

    Raises:
        KeyError: A weight is missing.
    """
    graph = _Layers(weights, int8)
    states = STATES_IN
    for number in range(count):
        states = graph.layer(str(number), states, STATES_OUT if number == count - 1 else f"states{number}")
    return graph.model()


def span_model(weights: Mapping[str, Array]) -> bytes:
    """The scores of all spans of a text as an ONNX model: (texts, pieces, 384) to (texts, pieces, pieces).

    Args:
        weights: Those of `inference.heads.scores.SPAN`.
    """
    return _Layers(weights, int8=False).spans()


class _Layers:
    """Builder of a graph of layers. Methods add operators and return the name of their output."""

    def __init__(self, weights: Mapping[str, Array], int8: bool) -> None:
        self._weights, self._int8 = weights, int8
        self._nodes: list[bytes] = []
        self._tensors: dict[str, NDArray[Any]] = {
            "per head": np.array([0, -1, 3, ATTENTION_HEADS, _WIDTH // ATTENTION_HEADS]),
            "joined": np.array([0, -1, _WIDTH]),
            "thirds": np.ones(3, np.int64),
            "first axis": np.zeros(1, np.int64),
            "scale": np.array((_WIDTH // ATTENTION_HEADS) ** -0.5, np.float32),
        }
        if int8:
            self._tensors |= {
                "step": np.array(1 / 127, np.float32),
                "least": np.array(1e-12, np.float32),
                "one": np.array(1, np.float32),
                "zero": np.array(128, np.uint8),
            }

    def layer(self, n: str, states: str, output: str) -> str:
        mixed = self._times(self._attention(n, states), f"{n}.out")
        attended = self._normed(mixed, f"{n}.out_bias", states, f"{n}.norm1", f"{n}.attended")
        wide = self._times(attended, f"{n}.up")
        wide = self._add("BiasGelu", [wide, self._weight(f"{n}.up_bias")], domain=_FUSED)
        return self._normed(self._times(wide, f"{n}.down"), f"{n}.down_bias", attended, f"{n}.norm2", output)

    def spans(self) -> bytes:
        self._tensors = {"halves": np.ones(2, np.int64)}
        edges = self._add("Add", [self._times(STATES_IN, "span"), self._weight("span_bias")])
        self._nodes.append(_node("Split", [edges, "halves"], ["starts", "ends"], {"axis": 2}))
        lasts = self._add("Transpose", [self._times(STATES_IN, "span_to")], perm=[0, 2, 1])
        both = self._add("MatMul", [self._times(STATES_IN, "span_from"), lasts])
        from_start = self._add("Add", [both, "starts"])
        self._add("Add", [from_start, self._add("Transpose", ["ends"], perm=[0, 2, 1])], STATES_OUT)
        return self.model(_value(STATES_OUT, ("texts", "pieces", "pieces")))

    def _attention(self, n: str, states: str) -> str:
        all_three = self._add("Add", [self._times(states, f"{n}.qkv"), self._weight(f"{n}.qkv_bias")])
        all_three = self._add("Reshape", [all_three, "per head"])
        all_three = self._add("Transpose", [all_three], perm=[2, 0, 3, 1, 4])
        thirds = [f"{n}.query", f"{n}.key", f"{n}.value"]
        self._nodes.append(_node("Split", [all_three, "thirds"], thirds, {"axis": 0}))
        query, key, value = (self._add("Squeeze", [third, "first axis"]) for third in thirds)
        scores = self._add("MatMul", [query, self._add("Transpose", [key], perm=[0, 1, 3, 2])])
        shares = self._add("Softmax", [self._add("Mul", [scores, "scale"])], axis=-1)
        mixed = self._add("Transpose", [self._add("MatMul", [shares, value])], perm=[0, 2, 1, 3])
        return self._add("Reshape", [mixed, "joined"])

    def _normed(self, change: str, bias: str, states: str, norm: str, output: str) -> str:
        total = self._add("Add", [self._add("Add", [change, self._weight(bias)]), states])
        parts = [total, self._weight(norm), self._weight(f"{norm}_bias")]
        return self._add("LayerNormalization", parts, output, axis=-1, epsilon=_EPSILON)

    def _times(self, states: str, matrix: str) -> str:
        """Matrix product of states and a weight."""
        if not self._int8:
            return self._add("MatMul", [states, self._weight(matrix)])
        weights = self._weights[matrix]
        scale = np.maximum(np.abs(weights).max(axis=0), 1e-8) / np.float32(127)
        self._tensors[f"{matrix}:int8"] = np.rint(weights / scale).astype(np.int8)
        self._tensors[f"{matrix}:scale"] = scale
        highest = self._add("ReduceMax", [self._add("Abs", [states])], axes=[2])
        steps = self._add("Add", [self._add("Mul", [highest, "step"]), "least"])
        rounded = self._add("QuantizeLinear", [self._add("Div", [states, steps]), "one", "zero"])
        product = self._add("MatMulInteger", [rounded, f"{matrix}:int8", "zero"])
        product = self._add("Mul", [self._add("Cast", [product], to=_FLOAT), steps])
        return self._add("Mul", [product, f"{matrix}:scale"])

    def _weight(self, name: str) -> str:
        self._tensors[name] = self._weights[name]
        return name

    def _add(self, operator: str, inputs: Sequence[str], output: str = "", domain: str = "", **attributes: Any) -> str:
        output = output or f"value {len(self._nodes)}"
        self._nodes.append(_node(operator, inputs, [output], attributes, domain))
        return output

    def model(self, output: bytes = b"") -> bytes:
        """The serialized ModelProto. `output` describes its output; default: states."""
        graph = [_field(_GRAPH_NODE, node) for node in self._nodes]
        graph += [_field(_GRAPH_INITIALIZER, _tensor(name, array)) for name, array in self._tensors.items()]
        graph += [_field(_GRAPH_INPUT, _value(STATES_IN)), _field(_GRAPH_OUTPUT, output or _value(STATES_OUT))]
        graph.append(_field(_GRAPH_NAME, b"layers"))
        opsets = [_number(2, _OPSET), _field(1, _FUSED.encode()) + _number(2, 1)]
        header = _number(_MODEL_FORMAT, _FORMAT) + b"".join(_field(_MODEL_OPSETS, opset) for opset in opsets)
        return header + _field(_MODEL_GRAPH, b"".join(graph))


def cut_out(model: bytes, outputs: Sequence[str]) -> bytes:
    """Extract the subgraph that computes the given values, which become its outputs.

    Raises:
        ValueError: Not an ONNX model.
    """
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

    needed, nodes = set(outputs), []
    for node in reversed(by_kind.get(_GRAPH_NODE, [])):  # nodes are in topological order, so one pass suffices
        if needed & set(_texts(node, _NODE_OUTPUT)):
            nodes.append(node)
            needed.update(_texts(node, _NODE_INPUT))
    kept = [_field(_GRAPH_NODE, node) for node in reversed(nodes)]
    for tensor in by_kind.get(_GRAPH_INITIALIZER, []):
        if _texts(tensor, _TENSOR_NAME)[0] in needed:
            kept.append(_field(_GRAPH_INITIALIZER, tensor))
    kept += [_field(_GRAPH_INPUT, value) for value in by_kind.get(_GRAPH_INPUT, []) if _texts(value, 1)[0] in needed]
    kept += [_field(_GRAPH_OUTPUT, _field(1, name.encode())) for name in outputs] + [_field(_GRAPH_NAME, b"part")]
    return header + _field(_MODEL_GRAPH, b"".join(kept))


def _node(
    operator: str, inputs: Sequence[str], outputs: Sequence[str], attributes: Mapping[str, Any], domain: str = ""
) -> bytes:
    message = b"".join(_field(_NODE_INPUT, name.encode()) for name in inputs)
    message += b"".join(_field(_NODE_OUTPUT, name.encode()) for name in outputs)
    message += _field(_NODE_OPERATOR, operator.encode()) + _field(_NODE_DOMAIN, domain.encode())
    for name, value in attributes.items():
        if isinstance(value, float):
            given, kind = _fixed32(_ATTRIBUTE_FLOAT, value), 1
        elif isinstance(value, int):
            given, kind = _number(_ATTRIBUTE_INT, value), 2
        else:
            given, kind = b"".join(_number(_ATTRIBUTE_INTS, one) for one in value), 7
        named = _field(_ATTRIBUTE_NAME, name.encode())
        message += _field(_NODE_ATTRIBUTE, named + given + _number(_ATTRIBUTE_TYPE, kind))
    return message


def _value(name: str, shape: Sequence[str | int] = ("texts", "pieces", _WIDTH)) -> bytes:
    """ValueInfoProto, float32; a dimension is a size or the name of one."""
    sizes = [_number(1, size) if isinstance(size, int) else _field(2, size.encode()) for size in shape]
    dimensions = b"".join(_field(1, size) for size in sizes)
    return _field(1, name.encode()) + _field(2, _field(1, _number(1, _FLOAT) + _field(2, dimensions)))


def _tensor(name: str, array: NDArray[Any]) -> bytes:
    values = np.asarray(array, order="C")
    message = b"".join(_number(_TENSOR_DIMS, size) for size in values.shape)
    message += _number(_TENSOR_TYPE, _TYPES[values.dtype.str[1:]]) + _field(_TENSOR_NAME, name.encode())
    return message + _field(_TENSOR_BYTES, values.astype(values.dtype.newbyteorder("<")).tobytes())


def _fields(message: bytes) -> Iterator[tuple[int, bytes | int, bytes]]:
    """Fields of a message: number, value, and the raw bytes of the field."""
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
    """A length-delimited field."""
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _number(number: int, value: int) -> bytes:
    """A varint field."""
    return _varint(number << 3) + _varint(value)


def _fixed32(number: int, value: float) -> bytes:
    """A 32-bit float field."""
    return _varint(number << 3 | 5) + struct.pack("<f", value)


def _varint(value: int) -> bytes:
    value &= 2**64 - 1  # protobuf's two's complement for negative numbers
    digits = b""
    while value > 127:
        digits += bytes([value & 127 | 128])
        value >>= 7
    return digits + bytes([value])
