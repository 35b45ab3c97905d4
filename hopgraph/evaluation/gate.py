"""Quality gate of an evaluation: bounds for its means, and the largest drop from an earlier run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired

from typing_extensions import TypedDict

from hopgraph.evaluation.costs import COSTS, TOTALS
from hopgraph.evaluation.data import Question
from hopgraph.evaluation.folder import RunFolder
from hopgraph.evaluation.metrics import METRICS
from hopgraph.evaluation.registry import Metric
from hopgraph.evaluation.scoring import Record
from hopgraph.evaluation.statistics import SIGNIFICANT, Comparison, compare
from hopgraph.evaluation.summary import ALL_METRICS, Summary, value_of
from inference.errors import InputError, did_you_mean

_DEFAULT = ("em", "f1")
"""Metrics of a `--max-drop` without a metric."""


class Check(TypedDict):
    """One bound, for one variant."""

    variant: str
    metric: str
    limit: float
    """The bound of the mean, or the largest fall; a share as 0 to 1."""
    value: float
    """The mean, or the fall of the mean, in the same unit."""
    passed: bool
    comparison: NotRequired[Comparison]
    """The paired comparison of a fall: this run's mean minus the earlier one's."""


@dataclass(frozen=True)
class Gate:
    """Bounds of an evaluation."""

    bounds: Mapping[str, float]
    """Worst mean allowed, by metric; shares as 0 to 1."""
    falls: Mapping[str, float]
    """Largest fall allowed, by metric, in the metric's own unit; shares as 0 to 1."""
    base: RunFolder | None = None
    """The earlier run."""

    def check_fits(self, variants: Sequence[str], questions: Sequence[Question]) -> list[str]:
        """Check, before any cost, that the earlier run can be compared with this one.

        Returns:
            Notes on what is not compared.

        Raises:
            StoreError: The earlier run is missing or damaged.
            InputError: The runs share no variant or no question, or have different questions of the same id.
        """
        if self.base is None:
            return []
        known = [str(row["name"]) for row in self.base.about()["variants"]]
        earlier = {question.id: question.question for question in self.base.questions()}
        shared = [question for question in questions if question.id in earlier]
        path = self.base.path
        if other := next((question for question in shared if earlier[question.id] != question.question), None):
            raise InputError(f"--against: {path}: question {other.id} differs from this run's")
        if not shared:
            raise InputError(f"--against: {path}: no questions in common", hint="questions are matched by id")
        if not set(known) & set(variants):
            raise InputError(
                f"--against: {path}: has no results of {', '.join(variants)}", hint=f"it has: {', '.join(known)}"
            )
        notes = [f"--against: {path} has no {name}, which is not compared" for name in variants if name not in known]
        if len(shared) < max(len(questions), len(earlier)):
            notes.append(f"--against: only the {len(shared)} questions of both runs are compared")
        return notes

    def check(self, summary: Summary, records: Sequence[Record], questions: Mapping[str, Question]) -> list[Check]:
        """Check the results of a finished run.

        Args:
            summary: The run's summary.
            records: Its results.
            questions: Its questions, by id.

        Raises:
            InputError: A metric has no value in this run, or in none of the questions of both runs.
        """
        found = []
        for variant in summary["variants"]:
            for name, limit in self.bounds.items():
                value = value_of(variant, ALL_METRICS[name])
                if value is None:
                    raise InputError(f"--fail-under {name}: {variant['variant']} has no such value: is there no gold?")
                mean = value if isinstance(value, float | int) else value["mean"]
                passed = mean >= limit if ALL_METRICS[name].better == "higher" else mean <= limit
                found.append(Check(variant=variant["variant"], metric=name, limit=limit, value=mean, passed=passed))
        if self.base is not None:
            earlier = self.base.records()
            for name in dict.fromkeys(record["variant"] for record in records):
                now = {record["id"]: record for record in records if record["variant"] == name}
                then = {record["id"]: record for record in earlier if record["variant"] == name and record["id"] in now}
                if then:
                    found += [self._fall(name, ALL_METRICS[key], now, then, questions) for key in self.falls]
        return found

    def _fall(
        self,
        variant: str,
        metric: Metric[Any],
        now: Mapping[str, Record],
        then: Mapping[str, Record],
        questions: Mapping[str, Question],
    ) -> Check:
        def values(record: Record) -> Mapping[str, float]:
            missing = {metric.name: 0.0} if metric.expected(questions[record["id"]]) else {}
            return {**missing, **(record["cost"] if metric.name in COSTS else record["metrics"])}

        pairs = [(values(then[key]), values(now[key])) for key in then]
        both = [pair for pair in pairs if all(metric.name in side for side in pair)]
        gap = compare([first[metric.name] for first, _ in both], [second[metric.name] for _, second in both])
        if gap is None:
            raise InputError(f"--max-drop {metric.name}: {variant} has no such value in both runs: is there no gold?")
        fall = -gap["difference"] if metric.better == "higher" else gap["difference"]
        limit = self.falls[metric.name]
        passed = fall <= limit or gap["p"] >= SIGNIFICANT
        return Check(variant=variant, metric=metric.name, limit=limit, value=fall, passed=passed, comparison=gap)


def read_gate(fail_under: Sequence[str], against: Path | None, max_drop: Sequence[str]) -> Gate | None:
    """The gate of the command line's options; None without any.

    Args:
        fail_under: `METRIC=NUMBER` each, by name or label; shares as 0 to 1.
        against: Folder of the earlier run.
        max_drop: `NUMBER`, for EM and F1, or `METRIC=NUMBER`; as tables print them, so shares in points of 100.

    Raises:
        InputError: A metric is unknown or a number is malformed.
    """
    if max_drop and against is None:
        raise InputError("--max-drop: needs --against", hint="--against names the folder of the earlier run")
    bounds: dict[str, float] = {}
    for text in fail_under:
        metric, number = _pair("--fail-under", text)
        if metric.unit == "share" and not 0 <= number <= 1:
            raise InputError(f"--fail-under {text}: {metric.name} is 0 to 1", hint="such as f1=0.5")
        bounds[metric.name] = number
    falls: dict[str, float] = {}
    for text in max_drop or (["0"] if against else []):
        chosen, number = _chosen(text)
        for metric in chosen:
            if metric.name in TOTALS:
                raise InputError(f"--max-drop {text}: {metric.name} has no value per question, so no paired test")
            falls[metric.name] = number / metric.scale
    return Gate(bounds, falls, RunFolder(against) if against else None) if bounds or against else None


def failures(gate: Gate, checks: Sequence[Check]) -> str:
    """What failed, in one line; "" if all passed."""
    return "; ".join(_told(gate, check) for check in checks if not check["passed"])


def _told(gate: Gate, check: Check) -> str:
    metric = ALL_METRICS[check["metric"]]
    value, limit = (_number(check[key] * metric.scale) for key in ("value", "limit"))
    start = f"{check['variant']}: {metric.label}"
    worse = "below" if metric.better == "higher" else "above"
    if "comparison" not in check or gate.base is None:
        return f"{start} {value}, {worse} {limit}"
    gap = check["comparison"]
    low, high = (_number(gap[key] * metric.scale, sign=True) for key in ("low", "high"))
    allowed = f", {limit} allowed" if check["limit"] else ""
    test = f"95% interval {low} to {high}, p {gap['p']:.4f}, n {gap['n']}"
    return f"{start} {value} {worse} {gate.base.path}{allowed} ({test})"


def _number(value: float, *, sign: bool = False) -> str:
    return f"{value:{'+' if sign else ''},.{0 if abs(value) >= 1000 else 1 if abs(value) >= 1 or not value else 2}f}"


def _chosen(text: str) -> tuple[list[Metric[Any]], float]:
    if "=" in text:
        metric, number = _pair("--max-drop", text)
        chosen = [metric]
    else:
        chosen, number = [ALL_METRICS[name] for name in _DEFAULT], _float("--max-drop", text, text)
    if number < 0:
        raise InputError(f"--max-drop {text}: must not be negative")
    return chosen, number


def _pair(option: str, text: str) -> tuple[Metric[Any], float]:
    name, sign, number = text.partition("=")
    if not sign:
        raise InputError(f"{option} {text}: must be METRIC=NUMBER, such as f1=0.5")
    name = name.strip().lower()
    listed: dict[str, Metric[Any]] = {**METRICS, **COSTS, **TOTALS}
    known = {metric.label.lower(): metric for metric in listed.values()} | listed
    if name not in known:
        raise InputError(
            f"{option} {text}: unknown metric {name!r}",
            hint=f"{did_you_mean(name, known)}metrics: {', '.join(listed)}",
        )
    return known[name], _float(option, text, number)


def _float(option: str, text: str, number: str) -> float:
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{option} {text}: {number.strip()!r} is not a number")
    return value
