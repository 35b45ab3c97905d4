"""The tree of questions: made of a decomposition, and which of its questions can be answered next (Sec. 3.2)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nodes.kit.rendering import plain
from nodes.probtree.state import Candidate, TreeNode, Way

NO_ANSWER = -100.0
"""Log-probability that an answer counts with that does not exist, in its parent's score, too (released code)."""
_REFERENCE = re.compile(r"#(\d+)")


@dataclass(frozen=True)
class Split:
    """A question and its sub-questions, as the model gives them."""

    question: str
    subquestions: Sequence[str]
    score: float
    """Mean log-probability of the sub-questions' tokens."""


@dataclass(frozen=True)
class Tree:
    """A tree, and what of the decomposition is not in it."""

    nodes: list[TreeNode]
    """Parents before their children."""
    problems: list[str]


def build(question: str, splits: Sequence[Split], *, max_depth: int, max_nodes: int) -> Tree:
    """The tree of a decomposition. The first split is the question's, whatever text it gives.

    Not in it: a split of a question that is not in the tree or repeats the question, sub-questions below the deepest
    level or beyond the number of nodes, and those with a reference to no earlier sibling that is in it. The others keep
    the numbers that the model gave them by their order. A reference that the question itself has, `#1`, is text.
    """
    root = _node("root", "", question, [])
    literal = set(_REFERENCE.findall(question))
    nodes, problems = [root], []
    left = {normalised(split.question): split for split in reversed(splits[1:])}
    level = [(root, splits[0])] if splits else []
    for depth in range(2, max_depth + 2):
        below = []
        for node, split in level:
            known = {normalised(node["words"]), normalised(question)}
            rows = enumerate(map(plain, split.subquestions), start=1)
            texts = {number: text for number, text in rows if text and normalised(text) not in known}
            if not texts or depth > max_depth or len(nodes) + len(texts) > max_nodes:
                problems += [f"not split any further: {node['words']}"] if texts else []
                continue
            kept: list[TreeNode] = []
            for number, text in texts.items():
                references = [found for found in dict.fromkeys(_REFERENCE.findall(text)) if found not in literal]
                if {f"{node['id']}/{found}" for found in references} <= {other["id"] for other in kept}:
                    kept.append(_node(f"{node['id']}/{number}", node["id"], text, references))
                else:
                    problems.append(f"left out, for it refers to no earlier sub-question: {text}")
            if kept:
                node["decomposition"] = split.score
                nodes += kept
                below += [(child, found) for child in kept if (found := left.pop(normalised(child["words"]), None))]
        level = below
    unused = [split for split in left.values() if split.subquestions]
    problems += [f"not in the tree: {split.question}" for split in unused]
    return Tree(nodes, problems)


def _node(id: str, parent: str, words: str, references: list[str]) -> TreeNode:
    return TreeNode(
        id=id,
        parent=parent,
        words=words,
        references=references,
        question="",
        entities=[],
        decomposition=0.0,
        chosen=None,
        answer="",
        score=None,
    )


def normalised(text: str) -> str:
    """A question without case, space and the punctuation at its end."""
    return plain(text).casefold().rstrip(" ?.!")


def children_of(tree: Sequence[TreeNode], node: TreeNode) -> list[TreeNode]:
    """The sub-questions of a question, in order."""
    return [other for other in tree if other["parent"] == node["id"]]


def ready(tree: Sequence[TreeNode]) -> list[TreeNode]:
    """Questions that can be answered now, with the answers that they refer to put in.

    A question is ready when its sub-questions and the siblings that it refers to are answered. For one without an
    answer its question is put in.
    """
    by_id = {node["id"]: node for node in tree}
    found = []
    for node in tree:
        siblings = {number: by_id[f"{node['parent']}/{number}"] for number in node["references"]}
        needed = [*siblings.values(), *children_of(tree, node)]
        if node["score"] is None and all(other["score"] is not None for other in needed):
            found.append(_filled(node, siblings))
    return found


def _filled(node: TreeNode, siblings: Mapping[str, TreeNode]) -> TreeNode:
    """The node with its question: `#1` replaced by the answer of the sibling, or by what was asked."""

    def value(number: str) -> str:
        other = siblings.get(number)
        if other is None:
            return f"#{number}"
        return other["answer"] or f'the answer to "{other["question"].rstrip("?")}"'

    entities = dict.fromkeys(other["answer"] for other in siblings.values() if other["answer"])
    question = _REFERENCE.sub(lambda match: value(match[1]), node["words"])
    return {**node, "question": question, "entities": list(entities)}


def aggregated_score(explanation: float, node: TreeNode, children: Sequence[TreeNode]) -> float:
    """Log-probability of the answer from sub-questions: the mean of its explanation's, of the decomposition's and of
    the sub-questions' answers' (Sec. 3.3.3)."""
    values = [explanation, node["decomposition"], *(child["score"] or 0.0 for child in children)]
    return sum(values) / len(values)


def likeliest(candidates: Sequence[Candidate]) -> Candidate | None:
    """The answer with the highest score; of equal ones the first. None if there is no answer."""
    return max((row for row in candidates if row["answer"]), key=lambda row: row["score"], default=None)


def evidence_of(tree: Sequence[TreeNode], candidates: Sequence[Candidate]) -> list[Candidate]:
    """The answers from passages that the root's answer rests on, itself or through its sub-questions."""
    ways: dict[tuple[str, Way | None], Candidate] = {(row["node"], row["way"]): row for row in candidates}
    pending, found = [tree[0]], []
    while pending:
        node = pending.pop(0)
        if node["chosen"] == "open_book":
            found.append(ways[node["id"], "open_book"])
        elif node["chosen"] == "child_aggregating":
            pending += children_of(tree, node)
    return found
