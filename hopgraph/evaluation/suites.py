"""Named suites: what the papers measure beside their main and ablation tables, as rows of settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["SUITES", "Row", "Suite"]


@dataclass(frozen=True)
class Row:
    """A variant of a suite."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What is different from the method as it is. `{index}` in a text stands for the index that is named."""
    method: str = ""
    """Where it is not the suite's."""


@dataclass(frozen=True)
class Suite:
    """What one figure or table compares."""

    method: str
    about: str
    """What is compared, with its source."""
    rows: tuple[Row, ...]


def _sweep(method: str, setting: str, *values: object, label: str = "") -> tuple[Row, ...]:
    return tuple(Row(f"{method} {label or setting} {value}", {setting: value}) for value in values)


SUITES: Mapping[str, Suite] = {
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
    "prism-conditions": Suite(
        "prism",
        "what the answer is written from (PRISM, Sec. 3.2, Fig. 2, Tables 3 and 7); the oracle is shown gold evidence",
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
    "parrag-gamma": Suite(
        "parrag",
        "steepness of the weight of accuracy (PAR-RAG, App. A, Fig. 7)",
        _sweep("parrag", "gamma", 0.1, 0.5, 1.0, 1.5, 2.0, 2.5),
    ),
    "parrag-h0": Suite(
        "parrag",
        "hop count at which accuracy and credibility weigh the same (PAR-RAG, App. A, Fig. 7)",
        _sweep("parrag", "h0", 1.0, 1.5, 2.0, 2.5, 3.0, 3.5),
    ),
    "parrag-threshold": Suite(
        "parrag",
        "confidence from which an answer is accepted, C_t (PAR-RAG, App. A, Fig. 7)",
        _sweep("parrag", "threshold", 0.55, 0.65, 0.7, 0.75, 0.8, 0.85),
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
        (Row("parrag"), *_sweep("parrag", "hop_count", 1, 2, 3, 4, label="hops")),
    ),
    "hanrag-router": Suite(
        "hanrag",
        "who routes (HANRAG, App. C, Tables 3 to 5); the oracle is shown the route, by hop count or compound answers",
        (
            Row("adaptive_rag", method="adaptive_rag"),
            Row("hanrag"),
            Row("hanrag encoder", {"router": "encoder"}),
            Row("hanrag gold route", {"router": "oracle"}),
        ),
    ),
    "adaptive_rag-router": Suite(
        "adaptive_rag",
        "who classifies (Adaptive-RAG, Table 3); the oracle is shown the class, by hop count",
        (
            Row("adaptive_rag", {"router": "model"}),
            Row("adaptive_rag encoder", {"router": "encoder"}),
            Row("adaptive_rag gold class", {"router": "oracle"}),
        ),
    ),
    "compactrag-reader": Suite(
        "compactrag",
        "another model as the reader (CompactRAG, Table 2): the index NAME, and NAME-other-reader, made of the same "
        "files and read with `hopgraph read --index NAME-other-reader --model ...`",
        (
            Row("compactrag"),
            Row("compactrag other reader", {"index": "{index}-other-reader"}),
        ),
    ),
    "prunerag-threshold": Suite(
        "prunerag",
        "confidence from which an answer is accepted, tau_A (PruneRAG, Fig. 5)",
        _sweep("prunerag", "threshold", 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99),
    ),
    "prunerag-depth": Suite(
        "prunerag",
        "deepest level of the tree (PruneRAG, Fig. 4)",
        _sweep("prunerag", "max_depth", 1, 2, 3, 4, label="depth"),
    ),
    "prunerag-backtrace": Suite(
        "prunerag",
        "backtracing from the leaves to the root, or one call over the whole tree, as released (PruneRAG, Sec. 3.3)",
        (
            Row("prunerag", {"backtrace": "bottom_up"}),
            Row("prunerag single call", {"backtrace": "single_call"}),
        ),
    ),
}
"""By name: `hopgraph eval --suite NAME`."""
