"""The steps of a run as the tree that their parents make of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nodes.kit.state import Step

if TYPE_CHECKING:
    from hopgraph.results import Result

__all__ = ["Nested", "gave_no_answer", "nested", "no_answer"]


@dataclass(frozen=True)
class Nested:
    """A step and those below it."""

    step: Step
    below: list[Nested] = field(default_factory=list)


def nested(steps: Sequence[Step]) -> list[Nested]:
    """The steps at the top, with all others below them, in the order of the trajectory: that in which they happened.

    Of steps that differ in their last number only, such as `root/1` and `root/2`, the lower one comes first: branches
    that are worked on side by side may end in any order. They share the places that they have among their siblings.
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
    """Put the branches of each series into the order of their numbers."""
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
    """Whether a step was to answer, did not, and says nothing of why."""
    return step["kind"] in ("answer", "aggregate") and not (step["answer"] or step["fallback"])


def no_answer(result: Result) -> str:
    """What stands in the place of the answer of a run without one."""
    if result["status"] == "failed":
        return "the run failed"
    return "the evidence does not answer the question" if result["retrieved"] else "the model gave no answer"
