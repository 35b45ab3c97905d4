"""Citations in an answer: the numbers of the passages it rests on."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nodes.kit.rendering import plain
from nodes.kit.state import PassageRef

_NAME = r"(?:(?:passages?|documents?|docs?|sources?|evidence|refs?|no)\b\.?\s*)?"
_ONE = rf"{_NAME}#?\s*\d{{1,3}}(?:\s*[-–—]\s*{_NAME}\d{{1,3}})?"
_SEVERAL = rf"{_ONE}(?:\s*(?:[,;&]|and\b)\s*{_ONE})*"
_CITATION = re.compile(
    rf"\s*(?:[\[［【]\s*({_SEVERAL})\s*[\]］】]|[(（]\s*({_SEVERAL})\s*[)）])", re.IGNORECASE | re.ASCII
)
_RANGE = re.compile(r"(\d{1,3})(?:\s*[-–—]\D{0,12}?(\d{1,3}))?")


def read_citations(text: str, documents: Sequence[PassageRef]) -> tuple[str, list[str]]:
    """An answer without its citations, and the passages they name, in order; numbers that name none are dropped.

    A number in parentheses is a citation if it names a passage and something stands before it: `(7)` beside five
    passages is a part of the answer, as is all of an answer such as `(2)`.

    Args:
        text: With citations such as `[2]`, `[1, 3]`, `[1-3]`, `[Passage 2]` or `(2)`.
        documents: What the numbers count, from 1.
    """
    cited: dict[int, None] = {}

    def take(match: re.Match[str]) -> str:
        numbers = _numbers(match[1] or match[2])
        known = [number for number in numbers if 1 <= number <= len(documents)]
        if match[1] is None and (len(known) < len(numbers) or not text[: match.start()].strip()):
            return match[0]
        cited.update(dict.fromkeys(known))
        return ""

    answer = plain(_CITATION.sub(take, text))
    return answer, [documents[number - 1]["id"] for number in cited]


def _numbers(text: str) -> list[int]:
    """Numbers of a citation: `1, 3-5` is 1, 3, 4, 5. A range that runs backwards is its two ends."""
    found: list[int] = []
    for match in _RANGE.finditer(text):
        first, last = int(match[1]), int(match[2] or match[1])
        found += range(first, last + 1) if first <= last else [first, last]
    return found
