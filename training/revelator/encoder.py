"""Trains HANRAG's Revelator as an encoder (Sec. 4.2, app. B) and prints the tables of `training/README.md`.

python -m training.revelator.encoder --data ../shared/data               train, write inference/heads/revelator.npz
python -m training.revelator.encoder --data ../shared/data --evaluate    what the shipped one does (no torch)
python -m training.revelator.encoder --data ../shared/data --beside DIR  the same beside a prompted model, on
                                              the rows that training.revelator.evaluate asked it, into DIR
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from inference.errors import InputError
from inference.heads.hops import predict_hops
from inference.heads.npz import load_weights
from inference.heads.revelator import ROUTES, ending, likeness, relevance, route
from training.command import guarded, trained, trainer
from training.measures import Scores, calibration_error, confusion, ranked_right, shares_right, table
from training.revelator.encoder_data import SKILLS, dev_chains, divided_examples, is_recalled, label_of, passage_of
from training.revelator.examples import Example
from training.revelator.sources import all_examples
from training.rows import rows_of

Labels = NDArray[np.int64]


def evaluation_report(data: Path, skills: Sequence[str] = SKILLS) -> str:
    """Markdown: what the shipped encoder does on the questions that it was not trained on, skill by skill."""
    _, _, held = divided_examples(data)
    of = {skill: [example for example in held if example.skill == skill] for skill in SKILLS}
    reports = {}
    if "router" in skills:
        reports["Routes"] = _route_report(of["router"])
    if "relevance" in skills:
        reports["Relevance"] = _relevance_report(of["relevance"])
    if "ending" in skills:
        sets = {"held out": of["ending"]}
        sets |= {f"{name}, dev": dev_chains(data, name) for name in ("musique", "2wikimultihopqa")}
        reports["Ending"] = _ending_report(sets)
        reports["Ending, the last answer unknown"] = _unknown_report(data)
    return "\n\n".join(f"#### {skill}\n\n{text}" for skill, text in reports.items()) + "\n"


def _route_report(rows: Sequence[Example]) -> str:
    start = time.process_time()
    found = route([row.question for row in rows])
    milliseconds = 1000 * (time.process_time() - start) / len(rows)
    said = [ROUTES.index(one.route) for one in found]
    matrix = confusion([label_of(row) for row in rows], said, len(ROUTES))
    lines = [[name, *matrix[i].tolist(), matrix[i, i] / max(matrix[i].sum(), 1)] for i, name in enumerate(ROUTES)]
    sure = np.array([max(one.probabilities) for one in found])
    right = np.array([label_of(row) == one for row, one in zip(rows, said, strict=True)])
    described = (
        f"{len(rows)} questions, accuracy {right.mean():.3f}; calibration error {calibration_error(sure, right):.3f}; "
        f"{milliseconds:.1f} ms of CPU time per question"
    )
    by_source = _by_source([f"{row.source}, {ROUTES[label_of(row)]}" for row in rows], right)
    matrix_table = table(["true", *(f"predicted {name}" for name in ROUTES), "right"], lines)
    return f"{described}\n\n{matrix_table}\n\n{by_source}"


def _relevance_report(rows: Sequence[Example]) -> str:
    start = time.process_time()
    scores = np.array([_verdict_of(row) for row in rows])
    milliseconds = 1000 * (time.process_time() - start) / len(rows)
    labels = np.array([label_of(row) for row in rows])
    sources = np.array([row.source for row in rows])
    lines = [_judged("all", scores, labels), *(_judged(name, scores[of], labels[of]) for name, of in _groups(sources))]
    similar = np.array([likeness(row.question, passage_of(row)) for row in rows])
    threshold = np.sort(similar)[-int(labels.sum())]  # as many as are relevant: better than anyone could choose it
    lines.append(_judged("all, by similarity in the original encoder", similar - threshold + 0.5, labels))
    described = f"{len(rows)} passages, calibration error {calibration_error(scores, labels == 1):.3f}"
    return f"{described}; {milliseconds:.1f} ms of CPU time per passage\n\n{table(_JUDGED, lines)}"


_JUDGED = ("source", "rows", "relevant", "accuracy at .5", "precision", "recall", "F1", "AUC")


def _judged(title: str, scores: Scores, labels: Labels) -> list[object]:
    said, true = scores >= 0.5, labels == 1
    hits = int((said & true).sum())
    precision, recall = hits / max(int(said.sum()), 1), hits / max(int(true.sum()), 1)
    f1 = 2 * precision * recall / max(precision + recall, 1e-9)
    return [
        title,
        len(labels),
        int(true.sum()),
        float((said == true).mean()),
        precision,
        recall,
        f1,
        ranked_right(scores, true),
    ]


def _ending_report(sets: Mapping[str, Sequence[Example]]) -> str:
    lines, details = [], []
    for name, rows in sets.items():
        labels = np.array([label_of(row) for row in rows])
        scores = np.array([_verdict_of(row) for row in rows])
        lines.append([f"{name}: **this encoder**", *_judged("", scores, labels)[1:]])
        asked = list(dict.fromkeys(row.question for row in rows))
        said = {question: found.hops for question, found in zip(asked, predict_hops(asked), strict=True)}
        hops = np.array([said[row.question] for row in rows])
        counted = (np.array([len(row.turns) for row in rows]) >= hops).astype(float)
        lines.append([f"{name}: as many steps as the hop predictor says", *_judged("", counted, labels)[1:]])
        described = f"{name}: calibration error {calibration_error(scores, labels == 1):.3f}, by source"
        details.append(f"{described}\n\n{_by_source([row.source for row in rows], (scores >= 0.5) == (labels == 1))}")
    return "\n\n".join([table(["chains", "rows", "sufficient", *_JUDGED[3:]], lines), *details])


def _unknown_report(data: Path) -> str:
    """Complete dev chains whose last answer is unknown: how many end nevertheless."""
    lines: list[list[object]] = []
    for name in ("musique", "2wikimultihopqa"):
        scores = np.array([_verdict_of(row) for row in dev_chains(data, name, unknown=True)])
        ended = int((scores >= 0.5).sum())
        lines.append([f"{name}, dev", len(scores), ended, ended / max(len(scores), 1)])
    return table(["chains", "rows", "ended nevertheless", "share"], lines)


def _by_source(sources: Sequence[str], right: NDArray[np.bool_]) -> str:
    return table(["source", "rows", "right"], shares_right([(source,) for source in sources], right.tolist()))


def _groups(sources: NDArray[np.str_]) -> list[tuple[str, NDArray[np.bool_]]]:
    return [(str(name), sources == name) for name in sorted(set(sources.tolist()))]


def comparison(data: Path, folder: Path) -> str:
    """Markdown: the shipped encoder beside a prompted model, on the held-out rows that the model was asked.

    Raises:
        InputError: A file is missing or malformed, or the rows are of other data.
    """
    said = {str(row["id"]): row for _, row in rows_of(folder / "results.jsonl") if row["skill"] in SKILLS}
    held = {example.id: example for example in all_examples(data)[1]}
    if missing := said.keys() - held.keys():
        raise InputError(f"{folder}: {len(missing)} of its rows are not in {data}", hint="evaluate it on this data")
    lines: list[list[object]] = []
    for skill in SKILLS:
        rows = [held[key] for key, row in said.items() if row["skill"] == skill]
        if not rows:
            continue
        theirs = [said[row.id] for row in rows]
        accuracy = float(np.mean([row["scores"]["accuracy"] for row in theirs]))
        labels = np.array([label_of(row) for row in rows])
        if skill == "router":
            ours = [ROUTES.index(one.route) for one in route([row.question for row in rows])]
            lines.append([skill, len(rows), accuracy, "-", float((np.array(ours) == labels).mean()), "-"])
            continue
        scores = np.array([_verdict_of(row) for row in rows])
        judged = [(row["probability"], label) for row, label in zip(theirs, labels, strict=True)]
        known = np.array([(p, label) for p, label in judged if p is not None]).reshape(-1, 2)
        area = ranked_right(known[:, 0], known[:, 1] == 1)
        lines.append([skill, len(rows), accuracy, area, *(_judged("", scores, labels)[i] for i in (3, 7))])
    return table(["skill", "rows", "prompted model", "its AUC", "this encoder", "its AUC"], lines)


def _verdict_of(row: Example) -> float:
    if row.skill == "relevance":
        return relevance(row.question, [passage_of(row)])[0]
    return ending(row.question, [(turn.question, turn.answer) for turn in row.turns])


def _train(options: Namespace) -> str:
    from training.revelator.encoder_model import SCHEDULE, train

    known, calibration, _ = (
        [row for row in rows if row.skill in options.skills] for rows in divided_examples(options.data)
    )
    start = load_weights(options.start) if options.start else None
    if start is not None:
        known = [row for row in known if row.skill != "relevance" or is_recalled(row)]
    described = ", ".join(f"{count} of {skill}" for skill, count in Counter(row.skill for row in known).items())
    described += f"; {len(calibration)} to calibrate on"
    return trained(options, described, lambda schedule: train(known, calibration, schedule, start), SCHEDULE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; gives the exit code."""
    parser, _ = trainer("revelator.encoder", "Train the Revelator's encoder.", "revelator.npz")
    parser.add_argument("--beside", type=Path, metavar="DIR", help="print it beside what a prompted model said")
    parser.add_argument("--skills", nargs="+", choices=SKILLS, default=SKILLS, help="heads to train, or to measure")
    parser.add_argument(
        "--start", type=Path, metavar="FILE", help="weights to start from; relevance is then only recalled"
    )
    options = parser.parse_args(arguments)

    def work() -> str:
        if options.beside:
            return comparison(options.data, options.beside)
        return evaluation_report(options.data, options.skills) if options.evaluate else _train(options)

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())
