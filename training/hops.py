"""Trains PAR-RAG's hop predictor (Sec. 3.3, 4.4) and prints the tables of `training/README.md`.

python -m training.hops --data ../shared/data               train, and write inference/hops.npz
python -m training.hops --data ../shared/data --evaluate    what the shipped predictor does (no torch)
python -m training.hops --data ../shared/data --ablate      what each feature is worth
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from inference.heads import load_weights, save_weights
from inference.hops import SurfaceFeatures, predict_hops
from training.command import WEIGHTS, guarded, parser, written
from training.hop_data import Labelled, evaluation_sets, training_rows

__all__ = ["confusion", "evaluation_report", "macro_f1", "main"]

SHIPPED = WEIGHTS / "hops.npz"
Matrix = NDArray[np.int64]
"""Shape (4, 4): questions by true hop count (rows) and predicted hop count (columns)."""


def confusion(true: Sequence[int], predicted: Sequence[int]) -> Matrix:
    """Confusion matrix of hop counts 1 to 4."""
    matrix = np.zeros((4, 4), np.int64)
    np.add.at(matrix, (np.asarray(true, int) - 1, np.asarray(predicted, int) - 1), 1)
    return matrix


def macro_f1(matrix: Matrix) -> float:
    """Mean F1 of the hop counts that occur among the true ones."""
    return float(np.mean([score for score in _f1(matrix) if score is not None]))


def _f1(matrix: Matrix) -> list[float | None]:
    """F1 of each hop count, None for one that no question has."""
    hits, both = matrix.diagonal(), matrix.sum(axis=0) + matrix.sum(axis=1)
    return [2 * float(hits[i]) / float(both[i]) if matrix[i].sum() else None for i in range(4)]


def evaluation_report(sets: dict[str, list[Labelled]]) -> str:
    """Markdown: for each set accuracy, F1 and the confusion matrix of the shipped predictor, and its speed."""
    parts = []
    for name, rows in sets.items():
        start = time.perf_counter()
        predicted = [prediction.hops for prediction in predict_hops([row.question for row in rows])]
        milliseconds = 1000 * (time.perf_counter() - start) / len(rows)
        matrix = confusion([row.hops for row in rows], predicted)
        parts.append(f"### {name}\n\n{_described(matrix)}; {milliseconds:.1f} ms a question\n\n{_table(matrix)}")
        if len({row.source for row in rows}) > 1:
            parts.append(_by_source(rows, predicted))
    return "\n\n".join(parts) + "\n"


def _described(matrix: Matrix) -> str:
    accuracy = matrix.trace() / matrix.sum()
    return f"{matrix.sum()} questions, accuracy {accuracy:.3f}, macro-F1 {macro_f1(matrix):.3f}"


def _table(matrix: Matrix) -> str:
    lines = ["| true | said 1 | 2 | 3 | 4 | F1 |", "|---|---:|---:|---:|---:|---:|"]
    for i, score in enumerate(_f1(matrix)):
        if score is not None:
            lines.append(f"| {i + 1} | {' | '.join(map(str, matrix[i]))} | {score:.3f} |")
    return "\n".join(lines)


def _by_source(rows: Sequence[Labelled], predicted: Sequence[int]) -> str:
    total = Counter((row.source, row.hops) for row in rows)
    right = Counter((row.source, row.hops) for row, said in zip(rows, predicted, strict=True) if row.hops == said)
    lines = ["| source or type | hops | questions | right |", "|---|---:|---:|---:|"]
    for (source, hops), count in sorted(total.items()):
        lines.append(f"| {source} | {hops} | {count} | {right[source, hops] / count:.3f} |")
    return "\n".join(lines)


def _ablation_report(data: Path) -> str:
    """Markdown: heads trained anew on some of the features."""
    from training.hop_model import feature_worth

    sets = evaluation_sets(data)
    tested = [row for rows in sets.values() for row in rows]
    found = feature_worth(load_weights(SHIPPED), training_rows(data)[0], tested)
    ends = np.cumsum([len(rows) for rows in sets.values()])
    lines = [
        "| encoding | surface features | validation accuracy | macro-F1 | MuSiQue macro-F1 | 2Wiki | HotpotQA |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for (encoding, features), probabilities in found.items():
        said = np.split(probabilities.argmax(axis=1) + 1, ends[:-1])
        by_set = dict(zip(sets, said, strict=True))
        of = {name: confusion([row.hops for row in sets[name]], by_set[name].tolist()) for name in sets}
        accuracy = {name: f"{matrix.trace() / matrix.sum():.3f}" for name, matrix in of.items()}
        lines.append(
            f"| {encoding} | {features} | {accuracy['validation']} | {macro_f1(of['validation']):.3f} "
            f"| {macro_f1(of['musique']):.3f} | {accuracy['2wikimultihopqa']} | {accuracy['hotpotqa']} |"
        )
    return "\n".join(lines) + "\n"


def _train(data: Path, to: Path, epochs: float | None, without: Sequence[str]) -> str:
    from training.hop_model import SCHEDULE, train

    rows, left_out = training_rows(data)
    start = time.perf_counter()
    weights = train(rows, replace(SCHEDULE, epochs=epochs) if epochs else SCHEDULE, without)
    save_weights(to, weights)
    dropped = ", ".join(f"{count} of {name}" for name, count in left_out.items())
    trained_on = f"{len(rows)} questions (left out as held out or repeated: {dropped})"
    return written(to, trained_on, time.perf_counter() - start)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; gives the exit code."""
    options = _options(arguments)

    def report() -> str:
        if options.evaluate:
            return evaluation_report(evaluation_sets(options.data))
        if options.ablate:
            return _ablation_report(options.data)
        return _train(options.data, options.to, options.epochs, options.without)

    return guarded(report)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    options = parser("hops", "Train the hop predictor.", SHIPPED)
    options.add_argument("--without", nargs="+", default=[], choices=SurfaceFeatures._fields, help="features to blank")
    what = options.add_mutually_exclusive_group()
    what.add_argument("--evaluate", action="store_true", help="print what the shipped predictor does; trains nothing")
    what.add_argument("--ablate", action="store_true", help="print what each feature is worth; writes nothing")
    return options.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
