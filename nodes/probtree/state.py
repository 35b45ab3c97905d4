"""State of ProbTree."""

from __future__ import annotations

from typing import Annotated, Literal

from typing_extensions import TypedDict

from nodes.kit.state import IndexRef, PassageRef, State, merge_by_id

Way = Literal["closed_book", "open_book", "child_aggregating"]
"""How a question is answered: by the model alone, from passages, from the answers of its sub-questions."""


class TreeNode(TypedDict):
    """A question of the tree."""

    id: str
    """A path: `root`, `root/1`, `root/1/2`."""
    parent: str
    words: str
    """The question; `#1` stands for the answer of its parent's first sub-question."""
    references: list[str]
    """Numbers of the siblings whose answers it needs, as its words have them: `1` for `#1`."""
    question: str
    """The question with the answers put in; "" until they are known."""
    entities: list[str]
    """The answers put in."""
    decomposition: float
    """Mean log-probability of its sub-questions' tokens; 0 of a leaf."""
    chosen: Way | None
    """The way whose answer counts; None before, and where no way has an answer."""
    answer: str
    score: float | None
    """Its mean log-probability (Sec. 3.3); None until it is answered."""


class Candidate(TypedDict):
    """An answer to a question of the tree."""

    id: str
    """The question's id and the way."""
    node: str
    way: Way
    answer: str
    """"" of an abstention or a reply that can't be used."""
    score: float
    """Mean log-probability; `NO_ANSWER` without an answer."""
    passages: list[PassageRef]
    problem: str


class ProbTreeState(State, total=False):
    """ProbTree: the tree of questions, and the answers to them."""

    tree: Annotated[list[TreeNode], merge_by_id]
    candidates: Annotated[list[Candidate], merge_by_id]


class Branch(TypedDict):
    """Input of a task for one question of the tree."""

    index: IndexRef | None
    given: list[str]
    node: TreeNode
    children: list[TreeNode]
