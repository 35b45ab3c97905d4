"""Suites of PruneRAG's paper."""

from __future__ import annotations

from hopgraph.evaluation.suites.rows import Row, Suite, sweep

SUITES = {
    "prunerag-threshold": Suite(
        "prunerag",
        "minimum confidence of an accepted answer, tau_A: EM and tree depth (PruneRAG, Fig. 5)",
        sweep("prunerag", "threshold", 0.1, 0.3, 0.5, 0.7, 0.75, 0.8, 0.9, 0.95, 0.99),
    ),
    "prunerag-depth": Suite(
        "prunerag",
        "maximum depth of the tree (PruneRAG, Fig. 4)",
        sweep("prunerag", "max_depth", 1, 2, 3, 4, label="depth"),
    ),
    "prunerag-backtrace": Suite(
        "prunerag",
        "backtracing from the leaves to the root, or one call with the whole tree, as released (PruneRAG, Sec. 3.3)",
        (
            Row("prunerag", {"backtrace": "bottom_up"}),
            Row("prunerag single call", {"backtrace": "single_call"}),
        ),
    ),
}
