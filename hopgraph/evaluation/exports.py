"""Export of results in the formats of other evaluation harnesses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from hopgraph.evaluation.data import Question
from hopgraph.evaluation.metrics import METRICS
from hopgraph.evaluation.runs import Runs
from hopgraph.evaluation.summary import summarise
from inference.errors import InputError
from stores.passages import Passage

_DOCS = 5
"""Documents per question in HippoRAG's results."""

Row = Callable[[Mapping[str, Any], Question, Mapping[str, Passage]], dict[str, Any]]


def export(runs: Runs, kind: str, folder: Path) -> list[Path]:
    """Write each variant's results, in the questions' order.

    - `flashrag`: `<variant>/intermediate_data.json`, a list of `id, question, golden_answers, output {retrieval_result,
      pred, metric_score}, metadata`, and `metric_score.txt` in the same folder, as FlashRAG's evaluator writes them.
    - `hipporag`: `<variant>.json`, a list of `question, answer, gold_answers, docs, doc_scores, gold_docs`, as HippoRAG
      2 writes its query solutions. Results don't store passage scores, so `doc_scores` is null.

    Passages are the evidence, best first, then all other retrieved ones. A failed or unanswerable question has the
    prediction "".

    Args:
        runs: The results.
        kind: One of `EXPORTS`.
        folder: Output folder; created if missing.

    Returns:
        The result files.

    Raises:
        InputError: The format is unknown, there are no results, or the folder can't be written.
        StoreError: A run is damaged.
    """
    if kind not in EXPORTS:
        raise InputError(f"--export: unknown format {kind!r}", hint=f"formats: {', '.join(EXPORTS)}")
    if not runs.records:
        raise InputError("no results yet", hint="resume the run with `hopgraph eval --resume DIR`")
    try:
        return list(_write(runs, kind, folder))
    except OSError as error:
        raise InputError(f"{error.filename or folder}: {error.strerror}") from None


def _write(runs: Runs, kind: str, folder: Path) -> Iterable[Path]:
    rows = _rows(runs, EXPORTS[kind])
    summary = summarise(runs.records, runs.questions, list(runs.methods))
    for variant in summary["variants"]:
        name = variant["variant"]
        safe = re.sub(r"[^\w.-]+", "_", name)
        path = folder / safe / "intermediate_data.json" if kind == "flashrag" else folder / f"{safe}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(rows[name], ensure_ascii=False, indent=4) + "\n", encoding="utf-8")
        if kind == "flashrag":
            scores = {
                theirs: variant["metrics"][ours]["mean"]
                for ours, theirs in _names(kind).items()
                if ours in variant["metrics"]
            }
            lines = [*(f"# {said}" for said in runs.simulations), *(f"{key}: {value}" for key, value in scores.items())]
            (path.parent / "metric_score.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        yield path


def _rows(runs: Runs, row_of: Row) -> dict[str, list[dict[str, Any]]]:
    """Each variant's rows, in question order."""
    from nodes.kit.passages import find

    found: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in runs.methods}
    for run in runs.runs:
        simulation = run.simulation
        for line in run.folder.results:
            name = run.names.get(line["variant"])
            if name is None or line["id"] not in runs.questions:
                continue
            question = runs.questions[line["id"]]
            keys = list(dict.fromkeys([*line["evidence"], *line["retrieved"]]))
            passages = find(runs.settings[name].get("index"), {*keys, *question.gold_ids})
            row = row_of({**line, "passages": keys}, question, passages)
            found[name][line["id"]] = row | ({"simulation": simulation} if simulation else {})
    return {name: [rows[key] for key in runs.questions if key in rows] for name, rows in found.items()}


def _flashrag(line: Mapping[str, Any], question: Question, passages: Mapping[str, Passage]) -> dict[str, Any]:
    scores = {theirs: line["metrics"][ours] for ours, theirs in _names("flashrag").items() if ours in line["metrics"]}
    about = {"type": question.type, "hops": question.hops, "status": line["status"], "cost": line["cost"]}
    return {
        "id": question.id,
        "question": question.question,
        "golden_answers": list(question.answers),
        "output": {
            "retrieval_result": [
                {"id": key, "title": passages[key].title, "contents": _text(passages[key])}
                for key in line["passages"]
                if key in passages
            ],
            "pred": line["answer"],
            "metric_score": scores,
        },
        "metadata": {key: value for key, value in about.items() if value not in ("", None)},
    }


def _hipporag(line: Mapping[str, Any], question: Question, passages: Mapping[str, Passage]) -> dict[str, Any]:
    gold = [_text(passages[key]) for key in question.gold_ids if key in passages]
    return {
        "question": question.question,
        "answer": line["answer"],
        "gold_answers": list(question.answers),
        "docs": [_text(passages[key]) for key in line["passages"] if key in passages][:_DOCS],
        "doc_scores": None,
        "gold_docs": gold or None,
    }


def _names(kind: str) -> dict[str, str]:
    """Names of the metrics in a format, by our name."""
    return {name: metric.exported[kind] for name, metric in METRICS.items() if kind in metric.exported}


def _text(passage: Passage) -> str:
    """A passage in both formats: title, line break, text."""
    return f"{passage.title}\n{passage.text}"


EXPORTS: dict[str, Row] = {"flashrag": _flashrag, "hipporag": _hipporag}
"""Row function by format."""
