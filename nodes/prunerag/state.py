"""PruneRAG's state."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from typing_extensions import TypedDict

from nodes.kit.state import IndexRef, PassageRef, State, merge_by_id


class TreeNode(TypedDict):
    """A node of PruneRAG's query decomposition tree (Sec. 3.1)."""

    id: str
    """A path: `root`, `root/0`, `root/0/1`."""
    parent: str
    depth: int
    """The root is at depth 1."""
    kind: Literal["query", "entity"]
    query: str
    """Of an entity node: the query its entities come from."""
    entities: list[str]
    searches: int
    """Searches reserved for it."""
    documents: list[PassageRef]
    answer: str
    confidence: float | None
    """exp of the mean log-probability of the answer's tokens (Eq. 4); None without an answer."""
    verdict: Literal["open", "accepted", "rejected", "split", "abstracted", "evidence"]
    """`open`: not looked at yet. `rejected`: answered, below the threshold. `split`: has sub-queries. `abstracted`: has
    an entity node. `evidence`: its documents go up, an answer does not."""
    decided: NotRequired[str]
    """What a person decided about its answer, `accept` or `reject`; absent without review."""
    pruned: str
    """Why this branch ends without an answer; else ""."""
    branches: list[str]
    """Sub-queries or entities that the model proposed."""
    result: str | None
    """Its result in backtracing (Sec. 3.3); None until then."""


class PruneState(State, total=False):
    """PruneRAG: the query decomposition tree."""

    tree: Annotated[list[TreeNode], merge_by_id]
    frontier: list[str]
    """Ids of the current level's nodes."""


class Branch(TypedDict, total=False):
    """Input of a task for one tree node: the node and its context in the tree."""

    index: IndexRef | None
    given: list[str]
    question: str
    node: TreeNode
    parent_query: str
    barred: bool
    """Answering is barred: the node's answer was rejected."""
    tree: list[TreeNode]
    """The tree when the task was sent, the root first."""
