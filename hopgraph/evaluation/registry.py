"""Registry of metrics: name, unit, direction, source and tables of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

Table = Literal["answers", "passages", "cost", "report", "comparison"]
"""Tables of `hopgraph eval`; `report`: additional columns of the report; `comparison`: the paired test of variants."""
Subject = TypeVar("Subject")
Measure = TypeVar("Measure", bound=Callable[..., float | None])


@dataclass(frozen=True)
class Metric(Generic[Subject]):
    """One metric."""

    name: str
    """Its key in JSON."""
    measure: Callable[[Subject], float | None]
    """Its value; None if it does not apply, such as without gold."""
    meaning: str
    """First paragraph of its function's docstring."""
    label: str
    """Its column in tables."""
    unit: str
    """A `share` is 0 to 1; tables show it as a percentage."""
    better: Literal["higher", "lower"]
    source: str
    """Paper and section of the definition."""
    places: Mapping[Table, int] = field(default_factory=dict)
    """The tables that list it, with the position of its column."""
    optional: bool = False
    """Whether the column is omitted if no variant has a value; for a cost, if all are 0."""
    expected: Callable[[Any], bool] = lambda question: False
    """Questions whose missing values count as 0, in variants with at least one value."""
    exported: Mapping[str, str] = field(default_factory=dict)
    """Its name in export formats, by format."""

    @property
    def searching(self) -> bool:
        """Whether it measures retrieval: undefined for variants that never search."""
        return "passages" in self.places

    @property
    def scale(self) -> float:
        """Factor from a value to its display in tables."""
        return 100 if self.unit == "share" else 1


class Registry(dict[str, Metric[Subject]]):
    """Metrics of one kind of subject, by name, in order of registration, which is the order in JSON."""

    def register(
        self,
        name: str,
        *,
        of: Callable[[Subject], tuple[Any, ...] | None],
        label: str = "",
        unit: str = "share",
        better: Literal["higher", "lower"] = "higher",
        source: str,
        **fields: Any,
    ) -> Callable[[Measure], Measure]:
        """Register a function as a metric.

        Args:
            name: Its key in JSON.
            of: Extracts the function's arguments from the subject; None if the metric does not apply.
            label: Its column in tables. Default: the name with spaces.
            unit: Such as `share`, `tokens`, `seconds`.
            better: Direction of improvement.
            source: Paper and section of the definition.
            fields: Optional fields of `Metric`.
        """

        def add(function: Measure) -> Measure:
            def measure(subject: Subject) -> float | None:
                arguments = of(subject)
                return None if arguments is None else function(*arguments)

            meaning = " ".join((function.__doc__ or "").partition("\n\n")[0].split())
            label_ = label or name.replace("_", " ")
            self[name] = Metric(name, measure, meaning, label_, unit, better, source, **fields)
            return function

        return add

    def measure(self, subject: Subject) -> dict[str, float]:
        """All metrics that apply to a subject."""
        found = {name: metric.measure(subject) for name, metric in self.items()}
        return {name: value for name, value in found.items() if value is not None}

    def table(self, name: Table) -> list[Metric[Subject]]:
        """The metrics of a table, in column order."""
        return sorted((m for m in self.values() if name in m.places), key=lambda m: m.places[name])
