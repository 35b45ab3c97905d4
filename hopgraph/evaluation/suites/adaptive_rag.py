"""Suites of Adaptive-RAG's paper."""

from __future__ import annotations

from hopgraph.evaluation.suites.rows import Row, Suite

SUITES = {
    "adaptive_rag-router": Suite(
        "adaptive_rag",
        "the classifier (Adaptive-RAG, Table 3); the oracle is given the class, by hop count",
        (
            Row("adaptive_rag", {"router": "model"}),
            Row("adaptive_rag encoder", {"router": "encoder"}),
            Row("adaptive_rag gold class", {"router": "oracle"}),
        ),
    ),
}
