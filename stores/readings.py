"""Question-answer pairs extracted from a passage, and the record of the reading (CompactRAG, Sec. 3.1)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Pair:
    """A question with its answer, and the passage it was extracted from."""

    passage: str
    number: int
    """Number among the pairs of the passage, from 1."""
    question: str
    answer: str
    verbatim: bool = True
    """The answer occurs verbatim in the passage."""
    coverage: bool = False
    """It comes from a coverage repair."""

    @property
    def id(self) -> str:
        """`<passage id>#<number>`."""
        return f"{self.passage}#{self.number}"


def pair_text(pair: Pair) -> str:
    """The encoder's input for a pair: question and answer as one text (Sec. 3.1)."""
    return f"{pair.question} {pair.answer}"


@dataclass(frozen=True)
class Reading:
    """Result and cost of reading one passage."""

    passage: str
    content: str
    """`content_id` of the passage when it was read."""
    cause: str = ""
    """Cause of a failure, in one word; "" if it succeeded."""
    message: str = ""
    entities: int = 0
    covered: int = 0
    """Entities that a pair mentions."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Rejected pairs (or, where flagged, not verbatim ones), by cause."""
    calls: int = 0
    """Model calls, including both kinds of repairs."""
    repairs: int = 0
    """Second calls after an invalid reply."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    coverage_calls: int = 0
    """Calls of coverage repairs, included in `calls`; likewise for the tokens."""
    coverage_prompt_tokens: int = 0
    coverage_completion_tokens: int = 0
    seconds: float = 0.0
    model: str = ""
    prompts: dict[str, str] = field(default_factory=dict)
    """Hash of every prompt that was used, by name."""
