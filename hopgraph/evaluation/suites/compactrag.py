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
}
