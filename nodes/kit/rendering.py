"""Rendering of untrusted text (questions, passages) in prompts, between delimiters that it can't close."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from inference.limits import UNKNOWN
from nodes.kit.state import SentenceRef
from stores.passages import Passage

__all__ = [
    "UNKNOWN",
    "Labels",
    "counted",
    "is_label",
    "numbered",
    "passage_block",
    "passage_blocks",
    "plain",
    "quoted",
    "sentence_block",
]

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_INVISIBLE = re.compile(
    r"[\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Direction marks, zero-width spaces and tag characters: invisible to people, but read by a model."""
_LABEL = re.compile(r"\s*\[?\s*(\d{1,4})(?:\s*\.\s*(\d{1,4}))?\s*\]?\s*", re.ASCII)
_DELIMITER = re.compile(
    r"<(?=\s*/?\s*(?:passage|question|evidence|query|step)\b"  # ours
    r"|[|｜]|/?(?:s|think|tool_call|tool_response|bos|eos|pad|unk|start_of_turn|end_of_turn)>|/?<?/?sys>>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|THINK)\])",
    re.IGNORECASE,
)
"""Start of one of our delimiters, or of a control word of common chat templates."""


def plain(text: str) -> str:
    """`text` in one line, without control characters, direction marks and other invisible characters."""
    if text.isascii() and text.isprintable():  # fast path for most texts
        return " ".join(text.split())
    return " ".join(_CONTROL.sub(" ", _INVISIBLE.sub("", text)).split())


def query_key(query: str) -> str:
    """What makes two queries the same: their words without case."""
    return plain(query).casefold()


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 passage`, `2,000 passages`, `1 search`, `2 searches`."""
    ending = "" if number == 1 else "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{ending}"


def quoted(text: str) -> str:
    """`text` made safe for a prompt.

    Our own delimiters and the control words of chat templates lose their first character to a look-alike, so that a
    passage can neither end its block nor start a chat turn. Everything else is kept.
    """
    return _DELIMITER.sub(lambda match: "‹" if match[0] == "<" else "［", plain(text))


def numbered(items: Iterable[str]) -> str:
    """A numbered list, one item per line."""
    return "\n".join(f"{number}. {quoted(item)}" for number, item in enumerate(items, start=1))


def passage_block(number: int, passage: Passage) -> str:
    """A whole passage between delimiters, with its number."""
    return f'<passage number="{number}" title="{_title(passage)}">\n{quoted(passage.text)}\n</passage>'


def passage_blocks(passages: Iterable[Passage]) -> list[str]:
    """Whole passages between delimiters, numbered from 1."""
    return [passage_block(number, passage) for number, passage in enumerate(passages, start=1)]


def sentence_block(number: int, passage: Passage, only: Sequence[int] | None = None) -> str:
    """A passage between delimiters, one labelled sentence per line: `[2.0]` is the first sentence of passage 2."""
    chosen = range(len(passage.sentences)) if only is None else only
    lines = [f"[{number}.{index}] {quoted(passage.sentences[index])}" for index in chosen]
    return "\n".join([f'<passage number="{number}" title="{_title(passage)}">', *lines, "</passage>"])


def _title(passage: Passage) -> str:
    return quoted(passage.title).replace('"', "'")


def is_label(text: str) -> bool:
    """Whether a text has the form of a label, `2.0` or `[2.0]`, or of a passage's number."""
    return _LABEL.fullmatch(text) is not None


class Labels:
    """Short labels of sentences in one prompt, both ways. Labels without a sentence in the pool are rejected.

    Args:
        pool: Passages in the order of their numbers, which start at 1.
    """

    def __init__(self, pool: Sequence[Passage]) -> None:
        self._pool = list(pool)
        self._number: Mapping[str, int] = {passage.id: number for number, passage in enumerate(pool, start=1)}

    def label(self, ref: SentenceRef) -> str:
        """The label of a sentence, `2.0` for the first of passage 2."""
        return f"{self._number[ref[0]]}.{ref[1]}"

    def refs(self, labels: Iterable[str]) -> tuple[list[SentenceRef], list[str]]:
        """The sentences that `labels` name, in the order given and without repeats, and the labels that name none.

        A number alone names all sentences of its passage.
        """
        found: dict[SentenceRef, None] = {}
        unknown = []
        for label in labels:
            match = _LABEL.fullmatch(label)
            number = int(match[1]) if match else 0
            passage = self._pool[number - 1] if 1 <= number <= len(self._pool) else None
            if match is None or passage is None:
                unknown.append(label)
            elif match[2] is None:
                found.update(((passage.id, index), None) for index in range(len(passage.sentences)))
            elif int(match[2]) < len(passage.sentences):
                found[(passage.id, int(match[2]))] = None
            else:
                unknown.append(label)
        return list(found), list(dict.fromkeys(unknown))
