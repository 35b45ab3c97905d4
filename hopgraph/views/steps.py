"""The steps of a run as a tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nodes.kit.state import Step

if TYPE_CHECKING:
    from hopgraph.results import Result

_POSITIVE = frozenset({"accepted", "answered", "relevant", "sufficient"})


@dataclass(frozen=True)
class Nested:
    """A step and its children."""

    step: Step
    below: list[Nested] = field(default_factory=list)


def nested(steps: Sequence[Step]) -> list[Nested]:
    """The top-level steps with their descendants, in trajectory order.

    Parallel branches finish in any order: siblings whose ids differ in the last number only (`root/1`, `root/2`) are
    sorted by it, within the positions they occupy among their siblings.
    """
    rows = {step["id"]: Nested(step) for step in steps}
    top: list[Nested] = []
    for row in rows.values():
        above = rows.get(row.step["parent"])
        (top if above is None or above is row else above.below).append(row)
    for siblings in [top, *(row.below for row in rows.values())]:
        _sort_branches(siblings)
    return top


def _sort_branches(siblings: list[Nested]) -> None:
    """Sort the branches of each series by number."""
    series: dict[str, list[tuple[int, int]]] = {}
    for place, row in enumerate(siblings):
        name, _, last = row.step["id"].rpartition("/")
        if last.isascii() and last.isdecimal():
            series.setdefault(name, []).append((int(last), place))
    before = list(siblings)
    for numbered in series.values():
        places = sorted(place for _, place in numbered)
        for place, (_, source) in zip(places, sorted(numbered), strict=True):
            siblings[place] = before[source]


def gave_no_answer(step: Step) -> bool:
    """Whether an answering step has neither an answer nor a reason."""
    return step["kind"] in ("answer", "aggregate") and not (step["answer"] or step["fallback"])


def is_positive(verdict: str) -> bool:
    """Whether a verdict is positive, also by a person (`accepted by ...`) or with a remark (`relevant, ...`)."""
    return verdict.partition(" by ")[0].partition(",")[0] in _POSITIVE


def evidence_ids(result: Result) -> set[str]:
    """Ids of all evidence passages of a result and its steps."""
    return {key for step in result["trajectory"] for key in step["evidence"]} | set(result["evidence"])


def no_answer(result: Result) -> str:
    """Text shown in place of a missing answer."""
    if result["status"] == "failed":
        return "the run failed"
    return "the evidence does not answer the question" if result["retrieved"] else "the model gave no answer"
