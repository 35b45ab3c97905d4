"""Suites of CompactRAG's paper."""

from __future__ import annotations

from hopgraph.evaluation.suites.rows import Row, Suite

SUITES = {
    "compactrag-reader": Suite(
        "compactrag",
        "another model as the reader (CompactRAG, Table 2): the index NAME, and NAME-other-reader, built from the same "
        "files and read with `hopgraph read --index NAME-other-reader --model ...`",
        (
            Row("compactrag"),
            Row("compactrag other reader", {"index": "{index}-other-reader"}),
        ),
    ),
    "compactrag-tokens": Suite(
        "compactrag",
        "tokens as questions add up, beside the iterative baselines (CompactRAG, Fig. 3); `benchmarks/token_curve.py` "
        "adds up what was read beforehand and puts the paper's tokens a question beside ours",
        (
            Row("compactrag"),
            Row("standard_rag", method="standard_rag"),
            Row("self_ask", method="self_ask"),
            Row("ircot", method="ircot"),
            Row("iter_retgen", method="iter_retgen"),
        ),
    ),
}
