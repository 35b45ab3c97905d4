"""The steps of a run as the tree that their parents make of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nodes.state import Step

__all__ = ["Nested", "nested"]


@dataclass(frozen=True)
class Nested:
    """A step and those below it."""

    step: Step
    below: list[Nested] = field(default_factory=list)


def nested(steps: Sequence[Step]) -> list[Nested]:
    """The steps at the top, with all others below them.

    Siblings come as they were made, but numbered ones by their number: those of one level may end in any order.
    """
    rows = {step["id"]: Nested(step) for step in steps}
    top: list[Nested] = []
    for row in rows.values():
        above = rows.get(row.step["parent"])
        (top if above is None or above is row else above.below).append(row)
    for siblings in [top, *(row.below for row in rows.values())]:
        numbered = [place for place, row in enumerate(siblings) if _number(row) is not None]
        in_order = sorted((siblings[place] for place in numbered), key=lambda row: _number(row) or 0)
        for place, row in zip(numbered, in_order, strict=True):
            siblings[place] = row
    return top


def _number(row: Nested) -> int | None:
    last = row.step["id"].rpartition("/")[2]
    return int(last) if last.isascii() and last.isdecimal() else None
