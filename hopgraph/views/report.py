"""The HTML report of evaluation runs. All text of a run is escaped, or shown by the page's script as text."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hopgraph.evaluation.registry import Metric, Table
from hopgraph.evaluation.runs import Runs
from hopgraph.evaluation.statistics import SIGNIFICANT, Estimate
from hopgraph.evaluation.summary import ALL_METRICS, Group, Summary, VariantSummary, summarise, value_of
from hopgraph.methods import context_class
from hopgraph.views import charts, questions
from hopgraph.views.pages import template
from hopgraph.views.table import columns
from inference.errors import InputError, StoreError

SWEPT = 3
"""Minimum number of values of a setting for a chart of it."""


@dataclass(frozen=True)
class Chart:
    """A chart on the page."""

    name: str
    caption: str
    svg: str


def write_report(runs: Runs, out: Path) -> Path:
    """Write the page, its charts as PNGs, and for many questions the files of their trajectories.

    Args:
        runs: The results.
        out: The page; the other files are in `<name>_files/` in the same folder.

    Raises:
        InputError: There are no results yet, or a file can't be written.
    """
    if not runs.records:
        raise InputError("no results yet", hint="resume the run with `hopgraph eval --resume DIR`")
    summary = summarise(runs.records, runs.questions, list(runs.methods))
    files = out.with_name(f"{out.stem}_files")
    try:
        shown = _charts(runs, summary, files)
        trajectories = questions.write_trajectories(runs, files)
        out.write_text(_page(runs, summary, shown, trajectories, files.name), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{error.filename or out}: {error.strerror}") from None
    return out


def _page(
    runs: Runs, summary: Summary, shown: Sequence[Chart], trajectories: Mapping[str, Any] | None, files: str
) -> str:
    """The page; trajectories are None if they are in the folder `files`."""
    from markupsafe import Markup

    variants = summary["variants"]
    rows = questions.overview(runs)
    shares, counts, totals = (_columns(variants, table) for table in ("answers", "cost", "report"))
    data = {"questions": rows, "trajectories": trajectories, "files": files, "chunk": questions.CHUNK}
    return template("report.html").render(
        columns=[*shares, *counts, *totals],
        rows=[_row(variant, [*shares, *counts, *totals], _marks(summary, variant["variant"])) for variant in variants],
        comparisons=summary["comparisons"],
        metrics=ALL_METRICS,
        charts=[(chart, Markup(chart.svg)) for chart in shown],  # noqa: S704  (matplotlib escapes its texts)
        kinds=[("type", _groups(variants, "types")), ("hops", _groups(variants, "hops"))],
        abouts=runs.abouts,
        simulations=runs.simulations,
        total=len(rows),
        data=Markup(_script_json(data)),  # noqa: S704
        names=Markup(_script_json([variant["variant"] for variant in variants])),  # noqa: S704
    )


def _columns(variants: Sequence[VariantSummary], table: Table) -> list[Metric[Any]]:
    """The metrics of a table that any variant has a value for."""
    found = columns(variants, table)
    return [m for m in found if table == "report" or any(value_of(variant, m) is not None for variant in variants)]


def _script_json(value: Any) -> str:
    """JSON that is safe in a script element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _marks(summary: Summary, name: str) -> dict[str, str]:
    """▲ or ▼ by metric if a variant is significantly above or below the first."""
    pair = next((pair for pair in summary["comparisons"] if pair["second"] == name), None)
    if pair is None:
        return {}
    return {
        key: "▲" if found["difference"] > 0 else "▼"
        for key, found in pair["metrics"].items()
        if found["p"] < SIGNIFICANT and found["difference"]
    }


def _row(variant: VariantSummary, shown: Sequence[Metric[Any]], marks: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": variant["variant"],
        "n": variant["n"],
        "failed": variant["failed"],
        "unjudged": variant["unjudged"],
        "unsupported": variant["unsupported"],
        "failures": ", ".join(f"{count} {kind}" for kind, count in sorted(variant["failures"].items())),
        "cells": [_cell(value_of(variant, metric), metric, marks.get(metric.name, "")) for metric in shown],
    }


def _cell(value: Estimate | float | None, metric: Metric[Any], mark: str) -> dict[str, str]:
    if value is None:
        return {"mean": "–", "range": "", "mark": "", "mood": ""}
    if not isinstance(value, dict):
        return {"mean": f"{value * metric.scale:.1f}", "range": "", "mark": "", "mood": ""}
    mean, low, high = (number * metric.scale for number in (value["mean"], value["low"], value["high"]))
    digits = 0 if mean >= 1000 else 1
    return {
        "mean": f"{mean:,.{digits}f}",
        "range": f"{low:,.{digits}f} – {high:,.{digits}f}",
        "mark": mark,
        "mood": "up" if mark == ("▲" if metric.better == "higher" else "▼") else "down",
    }


def _groups(variants: Sequence[VariantSummary], kind: Literal["types", "hops"]) -> list[tuple[str, list[Group | None]]]:
    """Question types or hop counts with each variant's figures; none for a single type or hop count."""
    names = sorted({name for variant in variants for name in variant[kind]})
    rows = [(name, [variant[kind].get(name) for variant in variants]) for name in names]
    return rows if len(rows) > 1 else []


def _charts(runs: Runs, summary: Summary, folder: Path) -> list[Chart]:
    """The charts for which there are results; each is also written as a PNG."""
    by_name = {variant["variant"]: variant for variant in summary["variants"]}
    variants = list(by_name.values())
    place = {key: number for number, key in enumerate(runs.questions)}
    tokens: dict[str, list[float]] = {name: [] for name in by_name}
    for record in sorted(runs.records, key=lambda record: place[record["id"]]):
        tokens[record["variant"]].append(record["cost"]["tokens"])
    made = [
        (
            "quality-cost",
            "Answer F1 against tokens per question; bars are 95% intervals.",
            charts.quality_and_cost(variants),
        ),
        (
            "efficiency",
            "Gold passages retrieved against searches; a bubble's area is its EM.",
            charts.efficiency(variants),
        ),
        (
            "cumulative-tokens",
            "Cumulative tokens by number of questions, including those of reading the corpus beforehand.",
            charts.cumulative_tokens(tokens, _read_before(runs)),
        ),
        ("tokens", "Tokens of each question; bars are medians.", charts.tokens_by_question(tokens)),
    ]
    for setting, rows in _sweeps(runs).items():
        points = [(value, by_name[name]) for value, name in rows if name in by_name]
        caption = f"Answer F1 (left) and tokens per question (right, dashed) by {setting.replace('_', ' ')}."
        made.append((f"sweep-{setting}", caption, charts.sweep(setting, points)))
    folder.mkdir(parents=True, exist_ok=True)  # only after drawing: matplotlib may be missing
    shown = []
    for name, caption, figure in made:
        if figure is not None:
            charts.mark(figure, runs.simulations)
            (folder / f"{name}.png").write_bytes(charts.png(figure))
            shown.append(Chart(name, caption, charts.svg(figure)))
    return shown


def _read_before(runs: Runs) -> dict[str, float]:
    """Tokens of reading the corpus, for variants that answer from a knowledge base."""
    from hopgraph.knowledge.report import report

    spent: dict[str, float] = {}
    for name, method in runs.methods.items():
        index = runs.settings[name].get("index")
        if index and context_class(method).knowledge_base:
            with suppress(StoreError):  # the index is not on this machine
                base = report(str(index))
                spent[name] = float(sum(part.prompt + part.completion for part in (base.tokens, base.coverage_tokens)))
    return spent


def _sweeps(runs: Runs) -> dict[str, list[tuple[float, str]]]:
    """Value and variant for each numeric setting that varies among otherwise equal variants of a method."""
    groups: dict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
    for name, values in runs.settings.items():
        for setting, value in values.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                rest = json.dumps({key: values[key] for key in sorted(values) if key != setting})
                groups[setting, runs.methods[name] + rest].append((float(value), name))
    return {setting: rows for (setting, _), rows in groups.items() if len({value for value, _ in rows}) >= SWEPT}
