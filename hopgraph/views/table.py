"""The summary of an evaluation as text: tables of methods, their comparison, and error tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table as Printed
from rich.text import Text

from hopgraph.evaluation.costs import COSTS
from hopgraph.evaluation.papers import PaperTable
from hopgraph.evaluation.plan import ORACLE
from hopgraph.evaluation.registry import Metric, Table
from hopgraph.evaluation.statistics import SIGNIFICANT, Estimate
from hopgraph.evaluation.summary import ALL_METRICS, Group, Pair, Summary, VariantSummary, value_of
from hopgraph.views.console import unwrapped
from nodes.kit.rendering import counted

_SHARES = {
    "share_of_incomplete": "of gold not kept",
    "share_of_wrong": "of wrong",
    "right_at_wrong_hops": "right, hops wrong",
}
"""Columns and rows of a group's shares, which a table of groups leaves out where no group has one."""
MAX_GROUPED = 3
"""Maximum number of variants for which error tables are shown; `--json` has all."""


def columns(variants: Sequence[VariantSummary], table: Table) -> list[Metric[Any]]:
    """The metrics of a table, in column order; optional ones only if a variant has a value."""
    listed = sorted(
        (metric for metric in ALL_METRICS.values() if table in metric.places), key=lambda metric: metric.places[table]
    )
    return [metric for metric in listed if not metric.optional or any(_shown(variant, metric) for variant in variants)]


def _shown(variant: VariantSummary, metric: Metric[Any]) -> bool:
    if metric.name in COSTS:
        return variant["costs"][metric.name]["mean"] != 0
    return value_of(variant, metric) is not None


def print_summary(summary: Summary, console: Console | None = None) -> None:
    """Print a summary."""
    console = console or unwrapped()
    variants = summary["variants"]
    if not variants:
        console.print("no results yet")
        return
    tables = [_answers(variants), _measured("cost per question", variants, "cost", narrow=console.width < 110)]
    if any("retrieved_recall" in variant["metrics"] for variant in variants):
        tables.append(_measured("gold passages", variants, "passages", narrow=True))
    tables += [_comparison(pair) for pair in summary["comparisons"]]
    if len(variants) <= MAX_GROUPED:
        tables += [
            _groups(variant["variant"], name, groups)
            for variant in variants
            for groups, name in ((variant["types"], "type"), (variant["hops"], "hops"))
            if len(groups) > 1
        ]
    tables += [_paper(table) for table in summary.get("papers", [])]
    simulation = str(summary.get("run", {}).get("simulation", ""))
    for table in tables:
        if simulation:
            console.print(Text(simulation, style="bold yellow"))
        console.print(table)
        console.print()
    console.print(Text("Means of all questions, failed ones included; 95% intervals; shares in %.", style="dim"))
    for line in _notes(variants):
        console.print(Text(line, style="yellow"))


def _table(title: str, first: str, columns: Sequence[str]) -> Printed:
    table = Printed(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")
    table.add_column(first, no_wrap=True, min_width=12)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _answers(variants: Sequence[VariantSummary]) -> Printed:
    shown = columns(variants, "answers")
    table = _table("answers", "method", ["n", "failed", *(metric.label for metric in shown)])
    for variant in variants:
        cells = [variant["variant"], str(variant["n"]), str(variant["failed"])]
        table.add_row(*map(Text, cells + [_cell(variant, metric) for metric in shown]))
    return table


def _measured(title: str, variants: Sequence[VariantSummary], name: Table, *, narrow: bool) -> Printed:
    shown = columns(variants, name)
    table = _table(title, "method", [metric.label for metric in shown])
    for variant in variants:
        cells = [_cell(variant, metric, narrow=narrow) for metric in shown]
        table.add_row(*map(Text, [variant["variant"], *cells]))
    return table


def _comparison(pair: Pair) -> Printed:
    table = _table(f"{pair['second']} against {pair['first']}", "paired", ["difference", "95% interval", "p"])
    table.add_column("")
    for key, found in pair["metrics"].items():
        metric = ALL_METRICS[key]
        low, high = found["low"] * metric.scale, found["high"] * metric.scale
        sure = "significant" if found["p"] < SIGNIFICANT else "may be chance"
        difference = f"{found['difference'] * metric.scale:+.1f}"
        table.add_row(metric.label, difference, f"{low:+.1f} to {high:+.1f}", f"{found['p']:.4f}", sure)
    return table


def _paper(found: PaperTable) -> Printed:
    """A paper's table, with the run's figures next to its own."""
    if "groups_of" in found:
        return _paper_groups(found)
    metrics = [ALL_METRICS[name] for name in next(iter(found["rows"].values()))]
    table = _table(f"{found['source']} ({found['setup']})", "method", [])
    for metric in metrics:
        table.add_column(metric.label, justify="right")
        table.add_column("paper", justify="right", style="dim")
    for variant, sides in found["rows"].items():
        cells = [_plain(sides[metric.name][side], metric) for metric in metrics for side in ("here", "paper")]
        table.add_row(*map(Text, [variant, *cells]))
    return table


def _paper_groups(found: PaperTable) -> Printed:
    """The same for shares of groups of questions."""
    table = _table(f"{found['source']} ({found['setup']})", found["groups_of"], [])
    for group in next(iter(found["rows"].values())):
        table.add_column(group, justify="right")
        table.add_column("paper", justify="right", style="dim")
    for key, sides in found["rows"].items():
        cells = [_percent(value) for side in sides.values() for value in (side["here"], side["paper"])]
        table.add_row(*map(Text, [_SHARES[key], *cells]))
    return table


def _plain(value: float | None, metric: Metric[Any]) -> str:
    return "-" if value is None else f"{value * metric.scale:,.{0 if value >= 1000 else 1}f}"


def _groups(variant: str, name: str, groups: Mapping[str, Group]) -> Printed:
    shown = [key for key in _SHARES if any(group[key] is not None for group in groups.values())]  # type: ignore[literal-required]
    labels = [_SHARES[key] for key in shown]
    columns = ["n", "failed", "EM", "F1", "recall", *labels, "wrong, gold found", "right, gold missing"]
    table = _table(f"{variant} by {name}", name, columns)
    for key, group in groups.items():
        keys = ("em", "f1", "recall", *shown)
        shares = [_percent(group[key]) for key in keys]  # type: ignore[literal-required]
        errors = [group["wrong_despite_full_recall"], group["right_despite_missing_gold"]]
        table.add_row(Text(key), str(group["n"]), str(group["failed"]), *shares, *map(str, errors))
    return table


def _notes(variants: Sequence[VariantSummary]) -> list[str]:
    """Caveats of the tables."""
    lines = []
    for variant in variants:
        name = variant["variant"]
        if name.endswith(ORACLE):
            lines.append(f"{name}: was given gold; it is an upper bound, not a method")
        if variant["failures"]:
            causes = ", ".join(f"{count} {kind}" for kind, count in sorted(variant["failures"].items()))
            lines.append(f"{name}: failed questions count as wrong; causes: {causes}")
        if variant["unjudged"]:
            left = counted(variant["unjudged"], "answer")
            lines.append(f"{name}: {left} not judged yet; resume with `--resume DIR --judge`")
        if variant["truncated"]:
            lines.append(f"{name}: in {variant['truncated']} questions passages were left out to fit a prompt")
        if variant["fallbacks"]:
            lines.append(
                f"{name}: in {variant['fallbacks']} questions unusable model output was replaced by a fallback"
            )
        if variant["unsupported"]:
            lines.append(f"{name}: {counted(variant['unsupported'], 'answer')} without evidence")
        if cached := variant["costs"]["cached_calls"]["mean"]:
            lines.append(f"{name}: {cached:.1f} more calls per question came from the cache, at no cost")
    return lines


def _cell(variant: VariantSummary, metric: Metric[Any], *, narrow: bool = False) -> str:
    value = value_of(variant, metric)
    if not isinstance(value, dict):
        return _percent(value) if metric.unit == "share" else _number(value, 6)
    return _estimate(value, metric.scale, narrow=narrow)


def _estimate(value: Estimate, scale: float, *, narrow: bool) -> str:
    """A mean, with its interval unless `narrow`: `33.3 22-45`."""
    mean, low, high = value["mean"] * scale, value["low"] * scale, value["high"] * scale
    shown = f"{mean:,.{0 if mean >= 1000 else 1}f}"
    digits = 1 if scale == 1 and mean < 100 else 0
    return shown if narrow else f"{shown} {low:,.{digits}f}-{high:,.{digits}f}"


def _percent(value: float | None) -> str:
    return _number(None if value is None else 100 * value, 1)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"
