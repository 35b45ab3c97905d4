"""The query decomposition tree of PruneRAG: making nodes, finding one's way in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from langgraph.types import Send

from nodes.kit.rendering import plain
from nodes.kit.state import Step
from nodes.kit.steps import step
from nodes.prunerag.state import Branch, PruneState, TreeNode


def new_node(
    parent: TreeNode | None, number: int, query: str, *, kind: str = "query", entities: Sequence[str] = ()
) -> TreeNode:
    """A node that nothing was done with yet; without a parent, the root."""
    return TreeNode(
        id=f"{parent['id']}/{number}" if parent else "root",
        parent=parent["id"] if parent else "",
        depth=parent["depth"] + 1 if parent else 1,
        kind="entity" if kind == "entity" else "query",
        query=query,
        entities=list(entities),
        searches=0,
        documents=[],
        answer="",
        confidence=None,
        verdict="open",
        pruned="",
        branches=[],
        result=None,
    )


def children(tree: Iterable[TreeNode], parent: TreeNode) -> list[TreeNode]:
    """The nodes directly below `parent`, left to right."""
    return [node for node in tree if node["parent"] == parent["id"]]


def ancestors(tree: Iterable[TreeNode], node: TreeNode) -> list[TreeNode]:
    """The nodes above `node`, nearest first."""
    by_id = {other["id"]: other for other in tree}
    found = []
    while node["parent"]:
        node = by_id[node["parent"]]
        found.append(node)
    return found


def normalised(query: str) -> str:
    """A query without case, punctuation at its end, and repeated space: what counts when two are compared."""
    return plain(query).casefold().rstrip(" ?.!")


def distinct(names: Iterable[str]) -> list[str]:
    """Names without those that are empty or another one once more."""
    found: dict[str, str] = {}
    for name in filter(None, map(plain, names)):
        found.setdefault(normalised(name), name)
    return list(found.values())


def passed_up(tree: Sequence[TreeNode], node: TreeNode) -> list[TreeNode]:
    """The nodes whose results or, where there is none, documents reach `node`: its children, and what is below those
    that have no result of their own, lest it be forgotten."""
    found = []
    for child in children(tree, node):
        found.append(child)
        found += [] if child["result"] else passed_up(tree, child)
    return found


def twin(tree: Sequence[TreeNode], node: TreeNode) -> TreeNode | None:
    """An ancestor or an earlier sibling that asks the same."""
    earlier = [other for other in tree if other["parent"] == node["parent"] and other["id"] < node["id"]]
    same = normalised(node["query"])
    return next((other for other in [*ancestors(tree, node), *earlier] if normalised(other["query"]) == same), None)


def answered(tree: Iterable[TreeNode], node: TreeNode) -> TreeNode | None:
    """A node anywhere in the tree that asks the same and whose answer was accepted."""
    same = normalised(node["query"])
    found = (other for other in tree if other["verdict"] == "accepted" and other["kind"] == "query")
    return next((other for other in found if normalised(other["query"]) == same), None)


def pruned_step(node: TreeNode, known: Iterable[Step] = ()) -> Step:
    """The step that says why a branch goes no further: the node's own among those known, else a new one.

    Args:
        node: The tree's node, with its reason.
        known: Steps so far.
    """
    said = next((row for row in known if row["id"] == node["id"]), None) or step(
        node["id"], "decompose", parent=node["parent"], question=node["query"]
    )
    return {**said, "verdict": f"pruned: {node['pruned']}"}


def unresolved(tree: Iterable[TreeNode]) -> list[TreeNode]:
    """Nodes that have not passed anything up yet."""
    return [node for node in tree if node["result"] is None]


def send(to: str, state: PruneState, node: TreeNode, *, barred: bool = False) -> Send:
    """A task for one node of the tree, on its own: it survives a crash whatever becomes of its siblings."""
    above = ancestors(state["tree"], node)
    branch = Branch(
        question=state["question"],
        given=state["given"],
        index=state["index"],
        node=node,
        parent_query=above[0]["query"] if above else "",
        barred=barred,
        tree=state["tree"],
    )
    return Send(to, branch)
