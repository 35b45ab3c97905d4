"""What a reader makes of a passage: question-answer pairs, and the record of the reading (CompactRAG, Sec. 3.1)."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Pair", "Reading", "pair_text"]


@dataclass(frozen=True, slots=True)
class Pair:
    """A question with its answer, and the passage that it was read from."""

    passage: str
    number: int
    """Its place among the pairs of the passage, from 1."""
    question: str
    answer: str
    verbatim: bool = True
    """The answer stands in the passage word for word."""
    coverage: bool = False
    """It comes from a coverage repair."""

    @property
    def id(self) -> str:
        """`<passage id>#<number>`."""
        return f"{self.passage}#{self.number}"


def pair_text(pair: Pair) -> str:
    """What the encoder gets of a pair: question and answer as one text (Sec. 3.1)."""
    return f"{pair.question} {pair.answer}"


@dataclass(frozen=True)
class Reading:
    """Result and cost of reading one passage."""

    passage: str
    content: str
    """`content_id` of the passage as it was read."""
    cause: str = ""
    """Why it failed, in one word; "" when it did not."""
    message: str = ""
    entities: int = 0
    covered: int = 0
    """Entities that a pair mentions."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Pairs of the model that are not in the base (or, where flagged, not verbatim), by cause."""
    calls: int = 0
    """Model calls, repairs of either kind included."""
    repairs: int = 0
    """Second calls after a reply that could not be used."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    coverage_calls: int = 0
    """Of the calls: those that a coverage repair made. The same goes for its tokens."""
    coverage_prompt_tokens: int = 0
    coverage_completion_tokens: int = 0
    seconds: float = 0.0
    model: str = ""
    prompts: dict[str, str] = field(default_factory=dict)
    """Hash of every prompt that was used, by name."""
