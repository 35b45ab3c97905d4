"""Recording of trajectory steps and their calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from inference.ledger import Call
from nodes.kit.place import node_name
from nodes.kit.state import RunError, SentenceRef, Step, StepKind


def step(
    id: str,
    kind: StepKind,
    *,
    node: str = "",
    parent: str = "root",
    question: str = "",
    answer: str = "",
    verdict: str = "",
    score: float | None = None,
    evidence: Sequence[str] = (),
    sentences: Sequence[SentenceRef] = (),
    calls: int = 0,
    searches: int = 0,
    truncated: int = 0,
    fallback: str = "",
) -> Step:
    """A step, by default of the running node; other fields default to empty."""
    return Step(
        id=id,
        parent=parent,
        kind=kind,
        node=node or node_name(),
        question=question,
        answer=answer,
        verdict=verdict,
        score=score,
        evidence=list(evidence),
        sentences=list(sentences),
        calls=calls,
        searches=searches,
        truncated=truncated,
        fallback=fallback,
    )


@dataclass(frozen=True, kw_only=True)
class Work:
    """Work done for one step, with its calls and problems: the fields of a step that all nodes share."""

    at: str
    """Id of the step."""
    node: str
    calls: list[Call] = field(default_factory=list)
    truncated: int = 0
    """Items left out because the prompt did not fit the model's context."""
    problem: str = ""
    """Why the output can't be used; else ""."""
    cut: str = ""
    """Which texts of the output were truncated to their maximum length; else ""."""

    def step(self, kind: StepKind, *, instead: str = "", problem: str = "", **fields: Any) -> Step:
        """The step for this work.

        Args:
            kind: Its kind.
            instead: The fallback, recorded if there is a problem.
            problem: What is wrong with output that was parsed.
            fields: Further fields of the step: see `step`.
        """
        why = self.problem or problem
        own: dict[str, Any] = {
            "node": self.node,
            "calls": len(self.calls),
            "truncated": self.truncated,
            "fallback": "; ".join(filter(None, [why, instead if why else "", self.cut])),
        }
        return step(self.at, kind, **(own | fields))

    @property
    def error(self) -> RunError | None:
        """The error of a run that needs this output; None if it can be used."""
        return RunError(kind="model_output", message=self.problem, node=self.node) if self.problem else None


class HasCalls(Protocol):
    """Anything that has calls for the ledger."""

    @property
    def calls(self) -> list[Call]:
        """Entries for the ledger."""


def logged(steps: Step | Sequence[Step], *work: HasCalls) -> dict[str, Any]:
    """The part of a node's update that records its steps, and the calls of all its work.

    Work may have steps of its own, such as the reranking of a search: they follow the node's.
    """
    rows = list(steps) if isinstance(steps, list | tuple) else [steps]
    rows += [row for done in work for row in getattr(done, "steps", ())]
    made = {"trajectory": rows, "ledger": [call for done in work for call in done.calls]}
    return {key: value for key, value in made.items() if value}
