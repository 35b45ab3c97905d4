"""How far PruneRAG's confidence can be believed: accuracy of first answers by confidence, from an evaluation's folder.

    hopgraph eval --method prunerag --set threshold=0 ... --out RUN
    python benchmarks/calibration.py RUN

With the threshold 0 every question ends with its first answer. Prints a reliability table (Sec. 3.2.2, Eq. 4 gives the
confidence), the expected calibration error, the area under the ROC curve, and for some thresholds what is accepted and
how much of it is right.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from hopgraph.evaluation.folder import RunFolder
from hopgraph.evaluation.metrics import exact_match
from training.measures import calibration_error, ranked_right

BINS = 5
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98)


def main(run: Annotated[Path, typer.Argument(help="Folder of the evaluation.")]) -> None:
    """Print the tables."""
    folder = RunFolder(run)
    questions = {question.id: question for question in folder.questions()}
    scores, right, asked = [], [], 0
    for record in folder.results:
        asked += 1
        gate = [step for step in record["trajectory"] if step["score"] is not None]
        if gate and record["answer"]:
            scores.append(gate[0]["score"])
            right.append(exact_match(record["answer"], questions[record["id"]].answers) == 1)
    sure, correct = np.array(scores), np.array(right)
    print(f"{asked} questions, {len(sure)} answered, {correct.mean():.3f} of these right")
    print(f"expected calibration error {calibration_error(sure, correct):.3f}, AUC {ranked_right(sure, correct):.3f}\n")
    print(f"{'confidence':>12}{'answers':>9}{'mean':>7}{'right':>7}")
    for some in np.array_split(np.argsort(sure), BINS):
        print(
            f"{sure[some].min():.2f} to {sure[some].max():.2f}{len(some):>9}{sure[some].mean():>7.2f}"
            f"{correct[some].mean():>7.2f}"
        )
    print(f"\n{'threshold':>12}{'accepted':>9}{'right':>7}")
    for threshold in THRESHOLDS:
        accepted = correct[sure >= threshold]
        share = f"{accepted.mean():>7.2f}" if len(accepted) else f"{'–':>7}"
        print(f"{threshold:>12}{len(accepted):>9}{share}")


if __name__ == "__main__":
    typer.run(main)
