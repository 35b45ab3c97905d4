"""What PAR-RAG's paper measures beside its tables."""

from __future__ import annotations

from hopgraph.evaluation.suites.rows import Row, Suite, sweep

SUITES = {
    "parrag-gamma": Suite(
        "parrag",
        "steepness of the weight of accuracy: reviews that judge right (PAR-RAG, App. A, Fig. 7)",
        sweep("parrag", "gamma", 0.1, 0.5, 1.0, 1.5, 2.0, 2.5),
    ),
    "parrag-h0": Suite(
        "parrag",
        "hop count at which accuracy and credibility weigh the same (PAR-RAG, App. A, Fig. 7)",
        sweep("parrag", "h0", 1.0, 1.5, 2.0, 2.5, 3.0, 3.5),
    ),
    "parrag-threshold": Suite(
        "parrag",
        "confidence from which an answer is accepted, C_t (PAR-RAG, App. A, Fig. 7)",
        sweep("parrag", "threshold", 0.55, 0.65, 0.7, 0.75, 0.8, 0.85),
    ),
    "parrag-exemplars": Suite(
        "parrag",
        "how the plan's exemplar is chosen (PAR-RAG, Fig. 4)",
        (
            Row("parrag", {"exemplars": "complexity"}),
            Row("parrag by similarity", {"exemplars": "similarity"}),
            Row("parrag zero-shot", {"exemplars": "none"}),
        ),
    ),
    "parrag-hops": Suite(
        "parrag",
        "wrong hop counts: each one in turn for all questions, read by the questions' own (PAR-RAG, Table 4)",
        (Row("parrag"), *sweep("parrag", "hop_count", 1, 2, 3, 4, label="hops")),
    ),
}
