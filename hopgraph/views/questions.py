"""The questions of a report: a row of scores each, and their trajectories, on the page or in files beside it."""

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
from nodes.kit.passages import find
from nodes.kit.rendering import plain
from stores.passages import Passage

__all__ = ["CHUNK", "INLINE", "overview", "write_trajectories"]

INLINE = 500
"""Questions whose trajectories stand in the page itself; with more, all are in files beside it, read when opened."""
CHUNK = 100
"""Questions in one of those files."""
LONGEST = 400
"""Characters of a step's text on the page; `hopgraph trace` shows it whole."""


def overview(runs: Runs) -> list[dict[str, Any]]:
    """A row a question: what it is, and by variant EM, F1, recall and status."""
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


def write_trajectories(runs: Runs, beside: Path) -> dict[str, dict[int, Any]] | None:
    """Trajectories by question and variant, for the page; None when they were written to files beside it."""
    for old in beside.glob("questions-*.js"):
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
            stack.enter_context((beside / f"questions-{chunk}.js").open("w", encoding="utf-8"))
            for chunk in range(-(-len(order) // CHUNK))
        ]
        for name, key, row in _trajectories(runs):
            text = json.dumps([key, place[name], row], ensure_ascii=True, separators=(",", ":"))
            files[order[key] // CHUNK].write(f"add({text});\n")
    return None


def _trajectories(runs: Runs) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Variant, question id, and what the page shows of the result, one after the other."""
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
    """A result as the page shows it: texts are cut, passages are numbers in its own list of titles."""
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
        "titles": [_title(key, known) for key in keys],
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
    """Titles of the gold passages that no search of a run found, which are those that its recall lacks."""
    found = {counts_as(key, question, known) for key in line["retrieved"]}
    if not question.gold_ids:
        titles = dict.fromkeys(question.gold_titles)
        return [plain(title) for title in titles if normalise_title(title) not in found]
    called: dict[str, str] = {}
    if len(question.gold_ids) == len(question.gold_titles):
        called = dict(zip(question.gold_ids, question.gold_titles, strict=True))
    missing = [key for key in dict.fromkeys(question.gold_ids) if key not in found]
    return [plain(called.get(key, "")) or _title(key, known) for key in missing]


def _title(key: str, known: Mapping[str, Passage | None]) -> str:
    passage = known.get(key)
    return (plain(passage.title) if passage else "") or key


def _cut(text: object) -> str:
    if text == "":
        return ""
    whole = "\n".join(line for row in str(text).splitlines() if (line := plain(row)))
    return whole if len(whole) <= LONGEST else whole[: LONGEST - 1] + "…"
