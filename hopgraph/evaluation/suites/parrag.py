"""Suites of PAR-RAG's paper."""

from __future__ import annotations

from hopgraph.evaluation.suites.rows import Row, Suite, sweep

SUITES = {
    "parrag-gamma": Suite(
        "parrag",
        "steepness of accuracy's weight: agreement of reviews with gold (PAR-RAG, App. A, Fig. 7)",
        sweep("parrag", "gamma", 0.1, 0.5, 1.0, 1.5, 2.0, 2.5),
    ),
    "parrag-h0": Suite(
        "parrag",
        "hop count at which accuracy and credibility have equal weight (PAR-RAG, App. A, Fig. 7)",
        sweep("parrag", "h0", 1.0, 1.5, 2.0, 2.5, 3.0, 3.5),
    ),
    "parrag-threshold": Suite(
        "parrag",
        "minimum confidence of an accepted answer, C_t (PAR-RAG, App. A, Fig. 7)",
        sweep("parrag", "threshold", 0.55, 0.65, 0.7, 0.75, 0.8, 0.85),
    ),
    "parrag-exemplars": Suite(
        "parrag",
        "selection of the plan's exemplar (PAR-RAG, Fig. 4)",
        (
            Row("parrag", {"exemplars": "complexity"}),
            Row("parrag by similarity", {"exemplars": "similarity"}),
            Row("parrag zero-shot", {"exemplars": "none"}),
        ),
    ),
    "parrag-hops": Suite(
        "parrag",
        "wrong hop counts: each fixed for all questions, reported by true hop count (PAR-RAG, Table 4)",
        (Row("parrag"), *sweep("parrag", "hop_count", 1, 2, 3, 4, label="hops")),
    ),
}
