"""The questions of a report: a row of scores each, and their trajectories, in the page or in separate files."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hopgraph.evaluation.data import Question
from hopgraph.evaluation.gold import as_known, counts_as, gold_of
from hopgraph.evaluation.metrics import normalise_title
from hopgraph.evaluation.runs import Runs
from hopgraph.views.texts import cut, plain_lines, title_of
from nodes.kit.passages import find
from nodes.kit.rendering import plain
from stores.passages import Passage

INLINE = 500
"""Maximum number of questions whose trajectories are in the page; with more, all are in files loaded on demand."""
CHUNK = 100
"""Questions per file."""
LONGEST = 400
"""Maximum length of a step's text in characters; `hopgraph trace` shows it in full."""


def overview(runs: Runs) -> list[dict[str, Any]]:
    """A row for each question: its gold annotations, and by variant EM, F1, recall and status."""
    rows: dict[str, dict[str, Any]] = {
        key: {
            "id": key,
            "q": plain(question.question),
            "gold": [plain(answer) for answer in question.answers] or ([] if question.answerable else ["(no answer)"]),
            "steps": [f"{plain(part.question)} → {plain(part.answer)}" for part in question.decomposition],
            "type": question.type,
            "hops": question.hops,
            "v": {},
        }
        for key, question in runs.questions.items()
    }
    place = {name: number for number, name in enumerate(runs.methods)}
    for record in runs.records:
        found = record["metrics"]
        scores = [found.get("em"), found.get("f1"), found.get("retrieved_recall"), record["status"]]
        rows[record["id"]]["v"][place[record["variant"]]] = scores
    return list(rows.values())


def write_trajectories(runs: Runs, folder: Path) -> dict[str, dict[int, Any]] | None:
    """Trajectories by question and variant, for the page; None if they were written to files in `folder`."""
    for old in folder.glob("questions-*.js"):
        old.unlink()
    place = {name: number for number, name in enumerate(runs.methods)}
    order = {key: number for number, key in enumerate(runs.questions)}
    if len(order) <= INLINE:
        inline: dict[str, dict[int, Any]] = defaultdict(dict)
        for name, key, row in _trajectories(runs):
            inline[key][place[name]] = row
        return dict(inline)
    with ExitStack() as stack:
        files = [
            stack.enter_context((folder / f"questions-{chunk}.js").open("w", encoding="utf-8"))
            for chunk in range(-(-len(order) // CHUNK))
        ]
        for name, key, row in _trajectories(runs):
            text = json.dumps([key, place[name], row], ensure_ascii=True, separators=(",", ":"))
            files[order[key] // CHUNK].write(f"add({text});\n")
    return None


def _trajectories(runs: Runs) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Variant, question id and compact result, one at a time."""
    for run in runs.runs:
        known: dict[str, Passage | None] = {}
        for line in run.folder.results:
            name = run.names.get(line["variant"])
            if name is not None and line["id"] in runs.questions:
                question = as_known(runs.questions[line["id"]], run.gold)
                _look_up(known, runs.settings[name].get("index"), line, question)
                yield name, line["id"], _compact(line, question, known)


def _look_up(known: dict[str, Passage | None], index: str | None, line: Mapping[str, Any], question: Question) -> None:
    mentioned = {key for step in line["trajectory"] for key in step["evidence"]}
    mentioned |= {*line["evidence"], *line["retrieved"], *question.gold_ids}
    if missing := mentioned - set(known):
        known.update(dict.fromkeys(missing))
        known.update(find(index, missing))


def _compact(line: Mapping[str, Any], question: Question, known: Mapping[str, Passage | None]) -> dict[str, Any]:
    """A result for the page: texts are cut, passages are indices into its list of titles."""
    keys = list(dict.fromkeys([*line["evidence"], *(key for step in line["trajectory"] for key in step["evidence"])]))
    number = {key: at for at, key in enumerate(keys)}
    gold = gold_of(question)
    return {
        "answer": _cut(line["answer"]),
        "status": line["status"],
        "error": _cut((line.get("error") or {}).get("message", "")),
        "notes": [_cut(note) for note in line.get("notes", [])],
        "thread": line["thread"],
        "cost": [line["cost"][name] for name in ("calls", "searches", "prompt_tokens", "completion_tokens", "seconds")],
        "titles": [title_of(key, known) for key in keys],
        "gold": [at for key, at in number.items() if counts_as(key, question, known) in gold],
        "missing": _missing(line, question, known) if line["retrieved"] or line["cost"]["searches"] else [],
        "evidence": [number[key] for key in line["evidence"]],
        "steps": [
            [
                step["id"].count("/"),
                step["node"],
                _cut(step["question"]) if step["question"] != line["question"] else "",
                _cut(step["answer"]),
                _cut(step["verdict"]),
                step["score"],
                [number[key] for key in step["evidence"]],
                _cut(step["fallback"]),
            ]
            for step in line["trajectory"]
        ],
    }


def _missing(line: Mapping[str, Any], question: Question, known: Mapping[str, Passage | None]) -> list[str]:
    """Titles of the gold passages that no search of a run returned."""
    found = {counts_as(key, question, known) for key in line["retrieved"]}
    if not question.gold_ids:
        unique = dict.fromkeys(question.gold_titles)
        return [plain(title) for title in unique if normalise_title(title) not in found]
    titles: dict[str, str] = {}
    if len(question.gold_ids) == len(question.gold_titles):
        titles = dict(zip(question.gold_ids, question.gold_titles, strict=True))
    missing = [key for key in dict.fromkeys(question.gold_ids) if key not in found]
    return [plain(titles.get(key, "")) or title_of(key, known) for key in missing]


def _cut(text: str) -> str:
    return cut("\n".join(plain_lines(text)), LONGEST)
