"""State of Search-o1."""

from __future__ import annotations

from typing_extensions import TypedDict

from nodes.kit.state import PassageRef, State


class Turn(TypedDict):
    """A part of the reasoning, the search that it ends with, and what came of it."""

    reasoning: str
    query: str
    """"" if it ends with the answer."""
    passages: list[PassageRef]
    """What the search found; empty until `reason_in_documents` has run."""
    information: str
    """What Reason-in-Documents made of it; "" before, and without Reason-in-Documents."""


class SearchO1State(State, total=False):
    """Search-o1: the chain of reasoning."""

    turns: list[Turn]
    page: list[PassageRef]
    """What the latest search found."""


def turn_id(state: SearchO1State) -> str:
    """Id of the latest turn, counted from 1."""
    return f"root/{len(state['turns'])}"
