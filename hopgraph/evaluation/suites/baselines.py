"""The baselines, side by side."""

from __future__ import annotations

from hopgraph.evaluation.suites.rows import Row, Suite

__all__ = ["SUITES"]

SUITES = {
    "baselines": Suite(
        "standard_rag",
        "what the papers measure against",
        tuple(
            Row(method, method=method)
            for method in (
                "no_retrieval",
                "standard_rag",
                "self_ask",
                "ircot",
                "iter_retgen",
                "react",
                "adaptive_rag",
            )
        ),
    ),
}
