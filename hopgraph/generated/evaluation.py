"""The generated tables of docs/evaluation.md: datasets, and the columns of the result tables."""

from __future__ import annotations

from hopgraph.evaluation.datasets import DATASETS
from hopgraph.evaluation.summary import ALL_METRICS

__all__ = ["datasets", "metrics"]


def datasets() -> str:
    """A row for each dataset."""
    rows = [
        f"| `{name}` | {found.title} | {found.form or 'JSON Lines, CSV, TSV'} | {found.licence} |"
        for name, found in DATASETS.items()
    ]
    return "\n".join(["| `--dataset` | | official files | licence |", "|---|---|---|---|", *rows])


def metrics() -> str:
    """A row for each registered metric; those that no table shows are in the JSON output."""
    rows = []
    for name, metric in ALL_METRICS.items():
        column = f"`{metric.label}`" if metric.places else ""
        unit = f"{metric.unit}, {metric.better} is better"
        rows.append(f"| {column} | {metric.meaning} | `{name}` | {unit} | {metric.source} |")
    return "\n".join(["| column | meaning | in JSON | unit | source |", "|---|---|---|---|---|", *rows])
