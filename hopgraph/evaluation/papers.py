"""The papers' figures for the same variants on the same dataset, next to a run's results.

`hopgraph/data/papers/METHOD.json` is a list of tables: `source` (paper, table), `setup` (its model, retriever, number
of questions), `dataset`, `metrics` (names), `rows` (by variant a number or null for each metric, as tables print them).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from hopgraph.evaluation.summary import ALL_METRICS, Summary, value_of

__all__ = ["FOLDER", "PaperTable", "Side", "beside"]

FOLDER = Path(__file__).parents[1] / "data" / "papers"


class Side(TypedDict):
    """One figure; a share is 0 to 1."""

    paper: float | None
    here: float | None


class PaperTable(TypedDict):
    """A table of a paper, with the run's figures."""

    source: str
    setup: str
    """Model, retriever and questions of the paper, which are not those of the run."""
    rows: dict[str, dict[str, Side]]
    """By variant and metric."""


def beside(summary: Summary, dataset: str) -> list[PaperTable]:
    """The papers' tables for a dataset, restricted to a run's variants; tables without a figure of both are left out.

    Args:
        summary: The run's summary.
        dataset: The run's `--dataset`.
    """
    variants = {variant["variant"]: variant for variant in summary["variants"]}
    found = []
    for table in _tables(dataset):
        rows: dict[str, dict[str, Side]] = {}
        for name, printed in table["rows"].items():
            if name not in variants:
                continue
            rows[name] = {}
            for metric, paper in zip(table["metrics"], printed, strict=True):
                value = value_of(variants[name], ALL_METRICS[metric])
                here = value["mean"] if isinstance(value, dict) else value
                rows[name][metric] = Side(paper=paper and paper / ALL_METRICS[metric].scale, here=here)
        if any(None not in (side["paper"], side["here"]) for row in rows.values() for side in row.values()):
            found.append(PaperTable(source=table["source"], setup=table["setup"], rows=rows))
    return found


def _tables(dataset: str) -> Iterator[dict[str, Any]]:
    for path in sorted(FOLDER.glob("*.json")):
        yield from (table for table in json.loads(path.read_text(encoding="utf-8")) if table["dataset"] == dataset)
