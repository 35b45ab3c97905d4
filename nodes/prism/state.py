"""PRISM's state."""

from __future__ import annotations

from nodes.kit.state import PassageRef, SentenceRef, State


class PrismState(State, total=False):
    """PRISM: sub-questions, the pool of candidates, and evidence sentences by iteration."""

    subquestions: list[str]
    oracle: list[SentenceRef | str] | None
    """The input's `gold`, for the oracle condition and nothing else; empty where there is no evidence to be had."""
    pool: list[PassageRef]
    iteration: int
    """Rounds of Selector and Adder begun, from 1."""
    selected: list[SentenceRef]
    """Current evidence."""
    selected_text: list[str]
    """The same as text, for stepping through a run; no node reads it."""
    before: list[SentenceRef]
    """Evidence when the current round began: the loop ends when a round changes nothing."""
    kept: list[SentenceRef]
    """All that a Selector kept, in any round."""
    added: list[SentenceRef]
    """What the latest Adder added and no later Selector has looked at."""
