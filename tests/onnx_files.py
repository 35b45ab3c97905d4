"""Tiny ONNX models, written byte by byte: tables that a token looks its row up in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

INT64, FLOAT = 7, 1


def lookup_model(inputs: Mapping[str, int], tables: Mapping[str, np.ndarray], rank: int = 2) -> bytes:
    """A model whose outputs are rows of tables, looked up by `input_ids`.

    Args:
        inputs: Name and element type of every input; those but `input_ids` are not used.
        tables: Output -> its table, float32.
        rank: Number of dimensions of the inputs but `input_ids`.
    """
    nodes = [_message((1, f"{name}_table"), (1, "input_ids"), (2, name), (4, "Gather")) for name in tables]
    weights = [
        _message(
            *[(1, size) for size in table.shape], (2, FLOAT), (8, f"{name}_table"), (9, table.astype("<f4").tobytes())
        )
        for name, table in tables.items()
    ]
    given = [
        _value(name, kind, 2 if name in ("input_ids", "attention_mask") else rank) for name, kind in inputs.items()
    ]
    outputs = [_value(name, FLOAT, table.ndim + 1) for name, table in tables.items()]
    graph = _message(
        *[(1, node) for node in nodes], (2, "tables"), *[(5, weight) for weight in weights],
        *[(11, value) for value in given], *[(12, value) for value in outputs],
    )  # fmt: skip
    return _message((1, 8), (7, graph), (8, _message((1, ""), (2, 13))))


def _value(name: str, kind: int, rank: int) -> bytes:
    shape = _message(*[(1, _message((2, f"{name}_{n}"))) for n in range(rank)])
    return _message((1, name), (2, _message((1, _message((1, kind), (2, shape))))))


def _message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """A protobuf message: numbers as varints, everything else with its length before it."""
    parts: list[bytes] = []
    for number, value in fields:
        if isinstance(value, int):
            parts += [_varint(number << 3), _varint(value)]
        else:
            raw = value.encode() if isinstance(value, str) else value
            parts += [_varint(number << 3 | 2), _varint(len(raw)), raw]
    return b"".join(parts)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def word_tokenizer(words: Sequence[str]) -> str:
    """A tokenizer file that splits at blanks and signs; `words` are the vocabulary, the first for unknown ones."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token=words[0]))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return str(tokenizer.to_str())


WORDS = [
    "[UNK]",
    "</s>",
    *["who", "directed", "zorba", "ann", "lee", "where", "was", "born", "paris", "in", "she", "greece"],
]


def span_checkpoint(folder: Path) -> Path:
    """A span model for which `who` and `ann` start an answer, and `born` and `lee` end one."""
    starts, ends = {"who": 9, "ann": 5, "paris": 4}, {"born": 9, "lee": 5, "paris": 4}
    tables = {"start_logits": _scores(starts), "end_logits": _scores(ends)}
    folder.mkdir()
    (folder / "model.onnx").write_bytes(lookup_model({"input_ids": INT64, "attention_mask": INT64}, tables))
    (folder / "tokenizer.json").write_text(word_tokenizer(WORDS))
    return folder


def rewriter_checkpoint(folder: Path) -> Path:
    """A rewriter that writes `where was ann lee born`, whatever it is given."""
    after = ["where", "was", "ann", "lee", "born", "</s>"]
    following = np.zeros((len(WORDS), len(WORDS)))
    for before, word in zip(["[UNK]", *after], after, strict=False):
        following[WORDS.index(before), WORDS.index(word)] = 1
    states = {"last_hidden_state": np.zeros((len(WORDS), 4))}
    folder.mkdir()
    (folder / "encoder_model.onnx").write_bytes(lookup_model({"input_ids": INT64, "attention_mask": INT64}, states))
    inputs = {"input_ids": INT64, "encoder_hidden_states": FLOAT}
    (folder / "decoder_model.onnx").write_bytes(lookup_model(inputs, {"logits": following}, rank=3))
    (folder / "tokenizer.json").write_text(word_tokenizer(WORDS))
    (folder / "config.json").write_text(json.dumps({"decoder_start_token_id": 0, "eos_token_id": 1}))
    return folder


def _scores(scores: Mapping[str, float]) -> np.ndarray:
    return np.array([scores.get(word, 0.0) for word in WORDS])


RELEVANCE = {"zorba": 3.0, "directed": 2.0, "ann": 1.0, "paris": -2.0}


def cross_encoder_checkpoint(folder: Path, logits: int = 1) -> Path:
    """A cross-encoder whose logit is the sum of a text's `RELEVANCE`; the query's words count for nothing.

    With two logits, the first is for "not relevant": one above the second's.
    """
    nodes = [
        _message((1, "table"), (1, "input_ids"), (2, "words"), (4, "Gather")),
        _message((1, "token_type_ids"), (2, "second"), (4, "Cast"), (5, _message((1, "to"), (3, FLOAT), (20, 2)))),
        _message((1, "words"), (1, "second"), (2, "counted"), (4, "Mul")),
        _message((1, "counted"), (1, "axes"), (2, "sum" if logits > 1 else "logits"), (4, "ReduceSum")),
    ]
    one = np.array([[-1.0]] if logits > 1 else [[0.0]], "<f4")
    if logits > 1:
        nodes.append(_message((1, "sum"), (1, "one"), (2, "other"), (4, "Mul")))
        axis = _message((1, "axis"), (3, 1), (20, 2))
        nodes.append(_message((1, "other"), (1, "sum"), (2, "logits"), (4, "Concat"), (5, axis)))
    weights = [
        _message((1, len(WORDS)), (2, FLOAT), (8, "table"), (9, _scores(RELEVANCE).astype("<f4").tobytes())),
        _message((1, 1), (2, INT64), (8, "axes"), (9, np.array([1], "<i8").tobytes())),
        _message((1, 1), (1, 1), (2, FLOAT), (8, "one"), (9, one.tobytes())),
    ]
    graph = _message(
        *[(1, node) for node in nodes], (2, "pairs"), *[(5, weight) for weight in weights],
        *[(11, _value(name, INT64, 2)) for name in ("input_ids", "token_type_ids")], (12, _value("logits", FLOAT, 2)),
    )  # fmt: skip
    folder.mkdir()
    (folder / "model.onnx").write_bytes(_message((1, 8), (7, graph), (8, _message((1, ""), (2, 13)))))
    (folder / "tokenizer.json").write_text(word_tokenizer(WORDS))
    return folder
