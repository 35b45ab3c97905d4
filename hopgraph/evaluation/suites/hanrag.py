"""Suites of HANRAG's paper."""

from __future__ import annotations

from hopgraph.evaluation.suites.rows import Row, Suite

SUITES = {
    "hanrag-router": Suite(
        "hanrag",
        "the router (HANRAG, App. C, Tables 3 to 5); the oracle is given the route, by hop count or compound answers",
        (
            Row("adaptive_rag", method="adaptive_rag"),
            Row("hanrag"),
            Row("hanrag encoder", {"router": "encoder"}),
            Row("hanrag gold route", {"router": "oracle"}),
        ),
    ),
}
