"""Suites of PRISM's paper."""

from __future__ import annotations

from hopgraph.evaluation.suites.rows import Row, Suite

SUITES = {
    "prism-conditions": Suite(
        "prism",
        "input of the answer (PRISM, Sec. 3.2, Fig. 2, Tables 3 and 7); the oracle is given gold evidence",
        (
            Row("prism"),
            Row("prism whole passages", {"answer_from": "passages"}),
            Row("prism full context", {"condition": "full_context"}),
            Row("prism gold context", {"condition": "oracle_context"}),
            Row("prism OneR", {"condition": "oner"}),
            Row("prism set-wise", {"condition": "setwise"}),
        ),
    ),
    "prism-order": Suite(
        "prism",
        "Selector or Adder first, union of all rounds or the last set (PRISM, Sec. 2.4, App. A.3)",
        (
            Row("prism"),
            Row("prism last set", {"final": "last"}),
            Row("prism Adder first", {"order": "adder_first"}),
        ),
    ),
}
