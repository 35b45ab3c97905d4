"""The page of a report. Everything that comes out of a run is escaped, or shown by the page's script as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from hopgraph.evaluation.scoring import Group, Summary, Variant
from hopgraph.evaluation.statistics import Estimate
from hopgraph.views.pages import template
from hopgraph.views.table import COUNTS, SHARES, counts_of

if TYPE_CHECKING:
    from hopgraph.evaluation.report import Chart

__all__ = ["render_report"]

SIGNIFICANT = 0.05


def render_report(
    summary: Summary,
    charts: Sequence[Chart],
    questions: Sequence[Mapping[str, Any]],
    trajectories: Mapping[str, Any] | None,
    *,
    abouts: Sequence[Mapping[str, Any]],
    simulations: Sequence[str],
    files: str,
    chunk: int,
) -> str:
    """The page.

    Args:
        summary: Means, intervals and comparisons.
        charts: The charts.
        questions: A row a question, as `evaluation.report` makes them.
        trajectories: By question id and variant's number; None when they are in files.
        abouts: What the runs' `run.json` say.
        simulations: What has to be said of runs that no model answered.
        files: Folder of those files, beside the page.
        chunk: Questions in each.
    """
    from markupsafe import Markup

    variants = summary["variants"]
    shares = [key for key in SHARES if any(key in variant["metrics"] for variant in variants)]
    counts = counts_of(variants)
    data = {"questions": questions, "trajectories": trajectories, "files": files, "chunk": chunk}
    return template("report.html").render(
        variants=variants,
        shares={key: SHARES[key] for key in shares},
        counts=counts,
        rows=[_row(variant, shares, list(counts), _marks(summary, variant["variant"])) for variant in variants],
        comparisons=summary["comparisons"],
        labels={**SHARES, **COUNTS},
        charts=[(chart, Markup(chart.svg)) for chart in charts],  # noqa: S704  (matplotlib escapes its texts)
        kinds=[("type", _groups(variants, "types")), ("hops", _groups(variants, "hops"))],
        abouts=abouts,
        simulations=simulations,
        total=len(questions),
        data=Markup(_script_json(data)),  # noqa: S704
        names=Markup(_script_json([variant["variant"] for variant in variants])),  # noqa: S704
    )


def _script_json(value: Any) -> str:
    """JSON that can stand in a script element, whatever texts are in it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _marks(summary: Summary, name: str) -> dict[str, str]:
    """By measure: ▲ or ▼ where a variant is significantly above or below the first."""
    pair = next((pair for pair in summary["comparisons"] if pair["second"] == name), None)
    if pair is None:
        return {}
    return {
        key: "▲" if found["difference"] > 0 else "▼"
        for key, found in pair["metrics"].items()
        if found["p"] < SIGNIFICANT and found["difference"]
    }


def _row(variant: Variant, shares: Sequence[str], counts: Sequence[str], marks: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": variant["variant"],
        "n": variant["n"],
        "failed": variant["failed"],
        "unjudged": variant["unjudged"],
        "unsupported": variant["unsupported"],
        "failures": ", ".join(f"{count} {kind}" for kind, count in sorted(variant["failures"].items())),
        "cells": [
            *(_cell(variant["metrics"].get(key), 100, marks.get(key, ""), good="▲") for key in shares),
            *(_cell(variant["costs"][key], 1, marks.get(key, ""), good="▼") for key in counts),
        ],
        "efr": variant["efr"],
        "efr_all": variant["efr_all"],
        "per_search": variant["retrieval_efficiency"],
    }


def _cell(value: Estimate | None, scale: float, mark: str, good: str) -> dict[str, str]:
    if value is None:
        return {"mean": "–", "range": "", "mark": "", "mood": ""}
    mean, low, high = (number * scale for number in (value["mean"], value["low"], value["high"]))
    digits = 0 if mean >= 1000 else 1
    return {
        "mean": f"{mean:,.{digits}f}",
        "range": f"{low:,.{digits}f} – {high:,.{digits}f}",
        "mark": mark,
        "mood": "up" if mark == good else "down",
    }


def _groups(variants: Sequence[Variant], kind: Literal["types", "hops"]) -> list[tuple[str, list[Group | None]]]:
    """Question types or hop counts with each variant's figures; none where there is only one."""
    names = sorted({name for variant in variants for name in variant[kind]})
    rows = [(name, [variant[kind].get(name) for variant in variants]) for name in names]
    return rows if len(rows) > 1 else []
