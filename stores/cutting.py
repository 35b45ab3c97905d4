"""Splits long texts at sentence boundaries into passages of bounded length."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

from inference.errors import InputError
from stores.passages import Passage
from stores.seen import Seen
from stores.sentences import split_sentences

MAX_WORDS = 150
"""Maximum words of a passage split from a longer text: about 200 tokens, within the default encoder's 256."""
LONG_PASSAGE = 300
"""Words above which a given passage counts as an article and is split."""


def split_passage(passage: Passage, *, max_words: int = MAX_WORDS, longer_than: int = LONG_PASSAGE) -> list[Passage]:
    """Split an article into passages of at most `max_words` words; one of at most `longer_than` is unchanged.

    The passage's own sentences are kept, even one longer than `max_words`; without any, spaCy splits the text. Every
    sentence is in exactly one part, in order. Each part has the article's title, the article's id (or its source) as
    `source`, and an id derived from the article's id and the part's text, so that a changed sentence does not change
    the ids of distant parts.
    """
    if word_count(passage.text) <= longer_than:
        return [passage]
    sentences = passage.sentences or shorten_sentences(split_sentences([passage.text])[0], max_words)
    parts = cut_sentences(sentences, max_words)
    if len(parts) < 2:
        return [passage]
    texts = [" ".join(part) for part in parts]
    return [
        replace(passage, id=part_id, text=text, sentences=tuple(part), source=passage.source or passage.id)
        for part_id, text, part in zip(part_ids(passage.id, texts), texts, parts, strict=True)
    ]


def cut_sentences(sentences: Sequence[str], max_words: int) -> list[list[str]]:
    """Group consecutive sentences up to `max_words` words; a longer sentence is its own group.

    The last two groups are balanced, so that no passage is much too short.
    """
    _check_bound(max_words)
    groups = _fill(sentences, max_words)
    if len(groups) > 1:
        tail = groups[-2] + groups[-1]
        groups[-2:] = min(
            ([tail[:i], tail[i:]] for i in range(1, len(tail))),
            key=lambda pair: max(sum(map(word_count, part)) for part in pair),
        )
    return groups


def _check_bound(max_words: int) -> None:
    if max_words < 1:
        raise InputError(f"max_words must be at least 1, got {max_words}", hint=f"the default is {MAX_WORDS}")


def _fill(sentences: Sequence[str], max_words: int) -> list[list[str]]:
    groups: list[list[str]] = []
    room = 0
    for sentence in sentences:
        words = word_count(sentence)
        if words > room or not groups:
            groups.append([])
            room = max_words
        groups[-1].append(sentence)
        room -= words
    return groups


def shorten_sentences(sentences: Iterable[str], max_words: int) -> list[str]:
    """Split overlong "sentences" (tables, lists of names) between words, so that none exceeds `max_words` words."""
    _check_bound(max_words)
    result: list[str] = []
    for sentence in sentences:
        if word_count(sentence) <= max_words:
            result.append(sentence)
            continue
        pieces = _fill([piece for word in sentence.split() for piece in _halves(word, max_words)], max_words)
        result.extend(" ".join(piece) for piece in pieces)
    return result


def _halves(word: str, max_words: int) -> list[str]:
    if word_count(word) <= max_words:
        return [word]
    return _halves(word[: len(word) // 2], max_words) + _halves(word[len(word) // 2 :], max_words)


def word_count(text: str) -> int:
    """Words separated by white space; in scripts without it, eight characters count as a word."""
    return max(len(text.split()), len(text) // 8)


def part_ids(source: str, texts: Iterable[str]) -> list[str]:
    """Ids of a document's parts; see `PartIds`."""
    ids = PartIds(source)
    return [ids.of(text) for text in texts]


class PartIds:
    """Ids of a document's parts, in order: the document's id and a hash of the part; duplicate parts are numbered."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._seen = Seen()

    def of(self, text: str) -> str:
        """The id of the next part."""
        digest = hashlib.sha256(text.encode()).digest()[:5]
        number = self._seen.add(digest)
        part = f"{self._source}#{digest.hex()}"
        return part if number == 1 else f"{part}-{number}"
