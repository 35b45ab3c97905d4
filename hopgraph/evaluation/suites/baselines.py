"""Suite of all baselines."""

from __future__ import annotations

from hopgraph.evaluation.suites.rows import Row, Suite
from hopgraph.methods import ABOUTS

SUITES = {
    "baselines": Suite(
        "",
        "all baselines",
        tuple(Row(name, method=name) for name, about in ABOUTS.items() if about.kind == "baseline"),
    ),
}
