"""External ONNX checkpoints for CompactRAG's small models, such as RoBERTa and Flan-T5.

A folder holds an ONNX export as `optimum-cli export onnx` writes it: `model.onnx` of a question-answering model, or
`encoder_model.onnx` and `decoder_model.onnx` of a sequence-to-sequence model, and beside them `tokenizer.json` and
`config.json`. HOPGRAPH_EXTRACTOR and HOPGRAPH_REWRITER name such folders; onnxruntime runs them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inference.errors import InputError
from inference.heads.extractor import Extraction
from inference.onnx_folder import check_folder, open_model, open_tokenizer, run_model

LONGEST = 512
"""Maximum input tokens."""
LONGEST_ANSWER = 40
"""Maximum tokens of an answer."""
LONGEST_QUESTION = 96
"""Maximum tokens of a rewritten question."""
_SPAN = ("model.onnx", "tokenizer.json")
_SEQ2SEQ = ("encoder_model.onnx", "decoder_model.onnx", "tokenizer.json", "config.json")
_FILES = {"HOPGRAPH_EXTRACTOR": _SPAN, "HOPGRAPH_REWRITER": _SEQ2SEQ}


def check_checkpoint(variable: str, folder: Path | None) -> None:
    """Check that a variable's folder has the files of such a checkpoint.

    Raises:
        InputError: A file is missing.
    """
    if folder is not None:
        check_folder(variable, folder, _FILES[variable])


class SpanCheckpoint:
    """An extractive question-answering model. Thread-safe.

    Raises:
        InputError: The folder's files can't be used.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        check_checkpoint("HOPGRAPH_EXTRACTOR", folder)
        self._tokenizer = open_tokenizer(folder, "HOPGRAPH_EXTRACTOR")
        self._tokenizer.enable_truncation(LONGEST, strategy="longest_first")
        self._session = open_model(folder / "model.onnx", "HOPGRAPH_EXTRACTOR")

    def extract(self, items: Sequence[tuple[str, str]]) -> list[Extraction]:
        """Answers as `inference.heads.extractor.extract_answers` returns them: never words of a pair's question."""
        return [self._extract(question, context) for question, context in items]

    def _extract(self, question: str, context: str) -> Extraction:
        found = self._tokenizer.encode(question[:2000], context)
        ids = np.array([found.ids], np.int64)
        given: dict[str, NDArray[Any]] = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.array([found.type_ids], np.int64),
        }
        starts, ends = run_model(self._session, given, ("start_logits", "end_logits"), self._folder)
        answers = _answer_lines(context)
        offsets = found.offsets
        line = [
            next((n for n, (first, last) in enumerate(answers) if first <= a < b <= last), -1) if text == 1 else -1
            for text, (a, b) in zip(found.sequence_ids, offsets, strict=True)
        ]
        places, scores = [], []
        for first in (i for i, number in enumerate(line) if number >= 0):
            for last in range(first, min(first + LONGEST_ANSWER, len(line))):
                if line[last] == line[first]:
                    places.append((offsets[first][0], offsets[last][1]))
                    scores.append(float(starts[0, first] + ends[0, last]))
        if not places:
            return Extraction("", 0, 0, 0.0)
        weights = np.exp(np.array(scores) - max(scores))
        best = int(np.argmax(weights))
        start, end = places[best]
        start += len(context[start:end]) - len(context[start:end].lstrip())  # some tokenizers include the leading space
        return Extraction(context[start:end], start, end, float(weights[best] / weights.sum()))


class Seq2SeqCheckpoint:
    """A sequence-to-sequence model that rewrites sub-questions, decoded greedily. Thread-safe.

    Its input is that of CompactRAG's published training files: `Q: <question> | prev_answer: <answer>`.

    Raises:
        InputError: The folder's files can't be used.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        check_checkpoint("HOPGRAPH_REWRITER", folder)
        self._tokenizer = open_tokenizer(folder, "HOPGRAPH_REWRITER")
        self._tokenizer.enable_truncation(LONGEST)
        self._encoder = open_model(folder / "encoder_model.onnx", "HOPGRAPH_REWRITER")
        self._decoder = open_model(folder / "decoder_model.onnx", "HOPGRAPH_REWRITER")
        try:
            config = json.loads((folder / "config.json").read_text("utf-8"))
            self._first = int(config.get("decoder_start_token_id") or config.get("pad_token_id") or 0)
            self._last = int(config["eos_token_id"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"HOPGRAPH_REWRITER: {folder / 'config.json'} can't be used ({error!r})") from None

    def rewrite(self, items: Sequence[tuple[str, str]]) -> list[str]:
        """Sub-questions with their answers substituted; unchanged if the model's output is empty."""
        return [self._rewrite(question, answer) or question for question, answer in items]

    def _rewrite(self, question: str, answer: str) -> str:
        ids = np.array([self._tokenizer.encode(f"Q: {question[:2000]} | prev_answer: {answer[:500]}").ids], np.int64)
        mask = np.ones_like(ids)
        given: dict[str, NDArray[Any]] = {"input_ids": ids, "attention_mask": mask}
        (states,) = run_model(self._encoder, given, ("last_hidden_state",), self._folder)
        written = [self._first]
        while len(written) <= LONGEST_QUESTION:
            given = {
                "input_ids": np.array([written], np.int64),
                "encoder_attention_mask": mask,
                "encoder_hidden_states": states,
            }
            (scores,) = run_model(self._decoder, given, ("logits",), self._folder)
            token = int(np.argmax(scores[0, -1]))
            if token == self._last:
                break
            written.append(token)
        return str(self._tokenizer.decode(written[1:], skip_special_tokens=True)).strip()


@lru_cache(maxsize=2)
def open_span(folder: Path) -> SpanCheckpoint:
    """The extractor in a folder, one instance per process."""
    return SpanCheckpoint(folder)


@lru_cache(maxsize=2)
def open_rewriter(folder: Path) -> Seq2SeqCheckpoint:
    """The rewriter in a folder, one instance per process."""
    return Seq2SeqCheckpoint(folder)


def _answer_lines(context: str) -> list[tuple[int, int]]:
    """Character spans of the pairs' answers: all but a block's first line."""
    found, at = [], 0
    for block in context.split("\n\n"):
        line = block.find("\n") + 1
        found.append((at + line, at + len(block)))
        at += len(block) + 2
    return found
