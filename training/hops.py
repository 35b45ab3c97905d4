"""Trains PAR-RAG's hop predictor (Sec. 3.3, 4.4) and prints the tables of `training/README.md`.

python -m training.hops --data ../shared/data               train, and write inference/heads/hops.npz
python -m training.hops --data ../shared/data --evaluate    measure the shipped predictor (no torch)
python -m training.hops --data ../shared/data --ablate      ablation of the features
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from inference.heads.hops import SurfaceFeatures, predict_hops
from inference.heads.npz import load_weights
from training.command import WEIGHTS, guarded, trained, trainer
from training.hop_data import Labelled, evaluation_sets, training_rows
from training.measures import Matrix, class_f1, confusion, macro_f1, shares_right, table


def _matrix(rows: Sequence[Labelled], predicted: Sequence[int]) -> Matrix:
    return confusion([row.hops - 1 for row in rows], [hops - 1 for hops in predicted], 4)


def evaluation_report(sets: dict[str, list[Labelled]]) -> str:
    """Markdown: for each set accuracy, F1 and the confusion matrix of the shipped predictor, and its speed."""
    parts = []
    for name, rows in sets.items():
        start = time.perf_counter()
        predicted = [prediction.hops for prediction in predict_hops([row.question for row in rows])]
        milliseconds = 1000 * (time.perf_counter() - start) / len(rows)
        matrix = _matrix(rows, predicted)
        parts.append(f"### {name}\n\n{_described(matrix)}; {milliseconds:.1f} ms a question\n\n{_table(matrix)}")
        if len({row.source for row in rows}) > 1:
            groups = [(row.source, row.hops) for row in rows]
            right = [row.hops == said for row, said in zip(rows, predicted, strict=True)]
            parts.append(table(["source or type", "hops", "questions", "right"], shares_right(groups, right)))
    return "\n\n".join(parts) + "\n"


def _described(matrix: Matrix) -> str:
    return f"{matrix.sum()} questions, accuracy {_accuracy(matrix):.3f}, macro-F1 {macro_f1(matrix):.3f}"


def _accuracy(matrix: Matrix) -> float:
    return float(matrix.trace() / matrix.sum())


def _table(matrix: Matrix) -> str:
    scores = enumerate(class_f1(matrix))
    lines = [[i + 1, *matrix[i].tolist(), score] for i, score in scores if score is not None]
    return table(["true", "predicted 1", "2", "3", "4", "F1"], lines)


def _ablation_report(data: Path) -> str:
    """Markdown: heads trained on subsets of the features."""
    from training.hop_model import feature_worth

    sets = evaluation_sets(data)
    tested = [row for rows in sets.values() for row in rows]
    found = feature_worth(load_weights(WEIGHTS / "hops.npz"), training_rows(data)[0], tested)
    ends = np.cumsum([len(rows) for rows in sets.values()])
    lines: list[list[object]] = []
    for names, probabilities in found.items():
        said = np.split(probabilities.argmax(axis=1) + 1, ends[:-1])
        of = {name: _matrix(sets[name], hops.tolist()) for name, hops in zip(sets, said, strict=True)}
        accuracy = {name: _accuracy(matrix) for name, matrix in of.items()}
        f1 = [macro_f1(of[name]) for name in ("validation", "musique")]
        lines.append([*names, accuracy["validation"], *f1, accuracy["2wikimultihopqa"], accuracy["hotpotqa"]])
    titles = ["validation accuracy", "macro-F1", "MuSiQue macro-F1", "2Wiki", "HotpotQA"]
    return table(["encoding", "surface features", *titles], lines, texts=2) + "\n"


def _train(options: Namespace) -> str:
    from training.hop_model import SCHEDULE, train

    rows, left_out = training_rows(options.data)
    dropped = ", ".join(f"{count} of {name}" for name, count in left_out.items())
    described = f"{len(rows)} questions (left out as held out or repeated: {dropped})"
    return trained(options, described, lambda schedule: train(rows, schedule, options.without), SCHEDULE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit code."""
    parser, instead = trainer("hops", "Train the hop predictor.", "hops.npz")
    parser.add_argument("--without", nargs="+", default=[], choices=SurfaceFeatures._fields, help="features to blank")
    instead.add_argument("--ablate", action="store_true", help="print ablation of the features; writes nothing")
    options = parser.parse_args(arguments)

    def work() -> str:
        if options.evaluate:
            return evaluation_report(evaluation_sets(options.data))
        return _ablation_report(options.data) if options.ablate else _train(options)

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())
