"""The papers' figures for the same variants on the same dataset, next to a run's results.

`hopgraph/data/papers/METHOD.json` is a list of tables: `source` (paper, table), `setup` (its model, retriever,
number of questions), `dataset`, `metrics` (names), `rows` (by variant a number or null for each metric, as printed).

A table of a `variant`'s questions by type or hops has no `metrics`, but `by` (`types` or `hops`), `groups` (their
names) and `rows` by field of `summary.Group`: a share or null for each group.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NotRequired

from typing_extensions import TypedDict

from hopgraph.evaluation.summary import ALL_METRICS, Summary, VariantSummary, value_of

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
    """By variant and metric; of groups of questions, by the group's field and its name."""
    groups_of: NotRequired[str]
    """The variant whose groups of questions they are."""


def beside(summary: Summary, dataset: str) -> list[PaperTable]:
    """The papers' tables for a dataset, restricted to a run's variants; tables without a figure of both are left out.

    Args:
        summary: The run's summary.
        dataset: The run's `--dataset`.
    """
    variants = {variant["variant"]: variant for variant in summary["variants"]}
    found = []
    for table in _tables(dataset):
        made = PaperTable(source=table["source"], setup=table["setup"], rows={})
        if "groups" not in table:
            made["rows"] = {name: _metrics(table, name, variants[name]) for name in table["rows"] if name in variants}
        elif table["variant"] in variants:
            made["groups_of"] = table["variant"]
            made["rows"] = {key: _groups(table, key, variants[table["variant"]]) for key in table["rows"]}
        if any(None not in (side["paper"], side["here"]) for row in made["rows"].values() for side in row.values()):
            found.append(made)
    return found


def _metrics(table: dict[str, Any], name: str, variant: VariantSummary) -> dict[str, Side]:
    """A variant's figures, by metric."""
    row = {}
    for metric, paper in zip(table["metrics"], table["rows"][name], strict=True):
        value = value_of(variant, ALL_METRICS[metric])
        here = value["mean"] if isinstance(value, dict) else value
        row[metric] = Side(paper=paper and paper / ALL_METRICS[metric].scale, here=here)
    return row


def _groups(table: dict[str, Any], key: str, variant: VariantSummary) -> dict[str, Side]:
    """A field of a variant's groups of questions, by group."""
    groups: dict[str, Any] = dict(variant[table["by"]])  # type: ignore[literal-required]
    return {
        name: Side(paper=paper and paper / 100, here=groups.get(name, {}).get(key))
        for name, paper in zip(table["groups"], table["rows"][key], strict=True)
    }


def _tables(dataset: str) -> Iterator[dict[str, Any]]:
    for path in sorted(FOLDER.glob("*.json")):
        yield from (table for table in json.loads(path.read_text(encoding="utf-8")) if table["dataset"] == dataset)
