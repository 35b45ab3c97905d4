"""Suites: rows of settings to compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Row:
    """A variant of a suite."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings other than the method's defaults. `{index}` in a text is replaced by the name of the run's index."""
    method: str = ""
    """Method id; "": the suite's."""


@dataclass(frozen=True)
class Suite:
    """The variants of one figure or table."""

    method: str
    """Default method of the rows."""
    about: str
    """What is compared, with its source."""
    rows: tuple[Row, ...]


def sweep(method: str, setting: str, *values: object, label: str = "") -> tuple[Row, ...]:
    """A row for each value of a setting."""
    return tuple(Row(f"{method} {label or setting} {value}", {setting: value}) for value in values)
