"""A suite: rows of settings that are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Row", "Suite", "sweep"]


@dataclass(frozen=True)
class Row:
    """A variant of a suite."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What is different from the method as it is. `{index}` in a text stands for the index that is named."""
    method: str = ""
    """Where it is not the suite's."""


@dataclass(frozen=True)
class Suite:
    """What one figure or table compares."""

    method: str
    """Of the rows that name none."""
    about: str
    """What is compared, with its source."""
    rows: tuple[Row, ...]


def sweep(method: str, setting: str, *values: object, label: str = "") -> tuple[Row, ...]:
    """A row for each value of a setting."""
    return tuple(Row(f"{method} {label or setting} {value}", {setting: value}) for value in values)
