"""The summary of an evaluation for people: a table of methods, their comparison, and where they went wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hopgraph.evaluation.plan import ORACLE
from hopgraph.evaluation.scoring import Group, Pair, Summary, Variant
from hopgraph.evaluation.statistics import Estimate
from hopgraph.views.console import unwrapped
from nodes.kit.rendering import counted

__all__ = ["COUNTS", "SHARES", "counts_of", "print_summary"]

SHARES = {
    "em": "EM",
    "f1": "F1",
    "accuracy": "acc",
    "entity_accuracy": "entities",
    "judged": "judged",
    "retrieved_recall": "recall",
    "fact_f1": "fact F1",
}
"""Metrics of the main table, in per cent."""
COUNTS = {
    "calls": "calls", "repairs": "of these repairs", "searches": "searches", "tokens": "tokens", "steps": "steps",
    "seconds": "seconds",
}  # fmt: skip
"""Costs of a question; `repairs` are calls, too."""
_OPTIONAL = frozenset({"entity_accuracy", "judged", "fact_f1"})
_SIGNIFICANT = 0.05
MAX_GROUPED = 3
"""Variants whose error tables are shown; those of more would be a long text, and `--json` has them."""


def counts_of(variants: Sequence[Variant]) -> dict[str, str]:
    """Those of `COUNTS` that a table shows: `repairs` only where there were any."""
    repaired = any(variant["costs"]["repairs"]["mean"] for variant in variants)
    return {key: label for key, label in COUNTS.items() if key != "repairs" or repaired}


def print_summary(summary: Summary, console: Console | None = None) -> None:
    """Print a summary."""
    console = console or unwrapped()
    variants = summary["variants"]
    if not variants:
        console.print("no results yet")
        return
    tables = [_answers(variants), _costs(variants, narrow=console.width < 110)]
    tables += [_retrieval(variants)] if any("retrieved_recall" in v["metrics"] for v in variants) else []
    tables += [_comparison(pair) for pair in summary["comparisons"]]
    if len(variants) <= MAX_GROUPED:
        tables += [
            _groups(variant["variant"], name, groups)
            for variant in variants
            for groups, name in ((variant["types"], "type"), (variant["hops"], "hops"))
            if len(groups) > 1
        ]
    simulation = str(summary.get("run", {}).get("simulation", ""))
    for table in tables:
        if simulation:
            console.print(Text(simulation, style="bold yellow"))
        console.print(table)
        console.print()
    console.print(Text("Means of all questions, failed ones included; 95% intervals; shares in %.", style="dim"))
    for line in _notes(variants):
        console.print(Text(line, style="yellow"))


def _table(title: str, first: str, columns: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")
    table.add_column(first, no_wrap=True, min_width=12)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _answers(variants: Sequence[Variant]) -> Table:
    shares = [key for key in SHARES if any(key in v["metrics"] for v in variants) or key not in _OPTIONAL]
    priced = any(variant["money"] is not None for variant in variants)
    table = _table("answers", "method", ["n", "failed", *(SHARES[key] for key in shares), *["money"] * priced])
    for variant in variants:
        cells = [variant["variant"], str(variant["n"]), str(variant["failed"])]
        cells += [_estimate(variant["metrics"].get(key), 100) for key in shares]
        cells += [_number(variant["money"], 6)] if priced else []
        table.add_row(*map(Text, cells))
    return table


def _costs(variants: Sequence[Variant], *, narrow: bool) -> Table:
    counts = counts_of(variants)
    table = _table("cost of a question", "method", list(counts.values()))
    for variant in variants:
        cells = [_estimate(variant["costs"][key], 1, narrow=narrow) for key in counts]
        table.add_row(*map(Text, [variant["variant"], *cells]))
    return table


def _retrieval(variants: Sequence[Variant]) -> Table:
    names = ["recall", "all", "per search", "EFR", "of all", "kept P", "kept R", "kept F1"]
    table = _table("gold passages", "method", names)
    for variant in variants:
        found, efficiency = variant["metrics"], variant["retrieval_efficiency"]
        cells = [_estimate(found.get(key), 100, narrow=True) for key in ("retrieved_recall", "all_gold_retrieved")]
        cells += [_percent(efficiency), _percent(variant["efr"]), _percent(variant["efr_all"])]
        kept = ("passage_precision", "passage_recall", "passage_f1")
        cells += [_estimate(found.get(key), 100, narrow=True) for key in kept]
        table.add_row(*map(Text, [variant["variant"], *cells]))
    return table


def _comparison(pair: Pair) -> Table:
    table = _table(f"{pair['second']} against {pair['first']}", "paired", ["difference", "95% interval", "p"])
    table.add_column("")
    for key, found in pair["metrics"].items():
        scale = 100 if key in SHARES else 1
        low, high = found["low"] * scale, found["high"] * scale
        sure = "significant" if found["p"] < _SIGNIFICANT else "may be chance"
        difference = f"{found['difference'] * scale:+.1f}"
        table.add_row(SHARES.get(key, key), difference, f"{low:+.1f} to {high:+.1f}", f"{found['p']:.4f}", sure)
    return table


def _groups(variant: str, name: str, groups: Mapping[str, Group]) -> Table:
    columns = ["n", "failed", "EM", "F1", "recall", "wrong, gold found", "right, gold missing"]
    table = _table(f"{variant} by {name}", name, columns)
    for key, group in groups.items():
        shares = [_percent(value) for value in (group["em"], group["f1"], group["recall"])]
        errors = [group["wrong_despite_full_recall"], group["right_despite_missing_gold"]]
        table.add_row(Text(key), str(group["n"]), str(group["failed"]), *shares, *map(str, errors))
    return table


def _notes(variants: Sequence[Variant]) -> list[str]:
    """What a person should know before believing the table."""
    lines = []
    for variant in variants:
        name = variant["variant"]
        if name.endswith(ORACLE):
            lines.append(f"{name}: was shown gold; it is a bound, and no method")
        if variant["failures"]:
            causes = ", ".join(f"{count} {kind}" for kind, count in sorted(variant["failures"].items()))
            lines.append(f"{name}: failed questions count as wrong; causes: {causes}")
        if variant["unjudged"]:
            left = counted(variant["unjudged"], "answer")
            lines.append(f"{name}: {left} still to be judged; `--resume DIR --judge` goes on")
        if variant["truncated"]:
            lines.append(f"{name}: in {variant['truncated']} questions passages were left out to fit a prompt")
        if variant["fallbacks"]:
            lines.append(f"{name}: in {variant['fallbacks']} questions a model output could not be used as it was")
        if variant["unsupported"]:
            lines.append(f"{name}: {counted(variant['unsupported'], 'answer')} without a passage that supports it")
        if cached := variant["costs"]["cached_calls"]["mean"]:
            lines.append(f"{name}: {cached:.1f} further calls a question came from the cache and cost nothing")
    return lines


def _estimate(value: Estimate | None, scale: float, *, narrow: bool = False) -> str:
    """A mean, and unless it is narrow its interval: `33.3 22-45`."""
    if value is None:
        return "-"
    mean, low, high = value["mean"] * scale, value["low"] * scale, value["high"] * scale
    shown = f"{mean:,.{0 if mean >= 1000 else 1}f}"
    digits = 1 if scale == 1 and mean < 100 else 0
    return shown if narrow else f"{shown} {low:,.{digits}f}-{high:,.{digits}f}"


def _percent(value: float | None) -> str:
    return _number(None if value is None else 100 * value, 1)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"
