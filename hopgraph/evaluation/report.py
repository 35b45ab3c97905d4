"""What evaluation runs amount to: one HTML page with charts, and every question's trajectories side by side."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hopgraph.evaluation.data import Question
from hopgraph.evaluation.folder import RunFolder
from hopgraph.evaluation.gold import as_known, counts_as, gold_of
from hopgraph.evaluation.metrics import normalise_title
from hopgraph.evaluation.scoring import Record, Summary, summarise
from hopgraph.simulation.playing import Simulation, said_of
from inference.errors import InputError, StoreError
from nodes.kit.rendering import plain
from stores.passages import Passage

__all__ = ["INLINE", "Chart", "Runs", "read_runs", "write_report"]

INLINE = 500
"""Questions whose trajectories stand in the page itself; with more, all are in files beside it, read when opened."""
CHUNK = 100
"""Questions in one of those files."""
LONGEST = 400
"""Characters of a step's text on the page; `hopgraph trace` shows it whole."""
SWEPT = 3
"""Values of a setting that make a chart of it."""


@dataclass(frozen=True)
class _Run:
    folder: RunFolder
    names: dict[str, str]
    """The report's names of its variants."""
    simulation: str
    """What has to be said of it if no model answered; else ""."""
    gold: str
    """What it knew gold passages by, as `gold.known_by` says."""


@dataclass
class Runs:
    """Several evaluation runs, read as one."""

    runs: list[_Run] = field(default_factory=list)
    questions: dict[str, Question] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    methods: dict[str, str] = field(default_factory=dict)
    """The method of each variant, in their order."""
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What was set in each variant."""
    abouts: list[dict[str, Any]] = field(default_factory=list)
    """What each folder's `run.json` says."""

    @property
    def simulations(self) -> list[str]:
        """What has to be said of the runs that no model answered."""
        return list(dict.fromkeys(said for about in self.abouts if (said := said_of(about))))

    def compare_with(self, name: str) -> None:
        """Put a variant first: the others are compared with it.

        Raises:
            InputError: There is none of that name.
        """
        if name not in self.methods:
            raise InputError(f"--against: there is no {name!r}", hint=f"there are: {', '.join(self.methods)}")
        self.methods = {name: self.methods[name], **self.methods}


@dataclass(frozen=True)
class Chart:
    """A chart on the page."""

    name: str
    caption: str
    svg: str


def read_runs(folders: Sequence[Path]) -> Runs:
    """The results of evaluation runs.

    Variants of the same name in two folders are told apart by the folder's, and simulated ones from those that a model
    answered. Questions are matched by id.

    Raises:
        StoreError: A folder has no run, or a damaged one.
        InputError: Two runs mean different questions by the same id.
    """
    found = Runs()
    abouts = {path: RunFolder(path).about() for path in folders}
    tags = {path: simulation.tag if (simulation := Simulation.of(about)) else "" for path, about in abouts.items()}
    mixed = len(set(tags.values())) > 1
    for path, about in abouts.items():
        folder = RunFolder(path)
        names: dict[str, str] = {}
        for row in about["variants"]:
            own = str(row["name"])
            name = f"{own} ({tags[path]})" if mixed and tags[path] else own
            name = name if name not in found.methods else f"{name} ({path.name})"
            if name in found.methods:
                raise InputError(f"{path}: there is a variant {name!r} already", hint="rename one of the folders")
            names[own] = name
            found.methods[name] = str(row["method"])
            found.settings[name] = dict(row["values"])
        for question in folder.questions():
            known = found.questions.setdefault(question.id, question)
            if known.question != question.question:
                raise InputError(f"{path}: question {question.id} is another one than in {folders[0]}")
        found.runs.append(_Run(folder, names, said_of(about), about["identity"]["gold"]))
        found.abouts.append({"path": str(path), **about})
        for record in folder.records():
            if record["variant"] in names and record["id"] in found.questions:
                found.records.append({**record, "variant": names[record["variant"]]})
    return found


def write_report(runs: Runs, out: Path) -> Path:
    """Write the page, its charts as PNGs, and where there are many questions the files of their trajectories.

    Args:
        runs: What to report.
        out: The page; `<name>_files/` beside it holds the rest.

    Raises:
        InputError: There are no results yet, or the place can't be written.
    """
    from hopgraph.views.report import render_report

    if not runs.records:
        raise InputError("there are no results yet", hint="`hopgraph eval --resume DIR` goes on with a run")
    summary = summarise(runs.records, runs.questions, list(runs.methods))
    beside = out.with_name(f"{out.stem}_files")
    try:
        charts = _charts(runs, summary, beside)
        inline = _write_trajectories(runs, beside)
        page = render_report(
            summary,
            charts,
            _overview(runs),
            inline,
            abouts=runs.abouts,
            simulations=runs.simulations,
            files=beside.name,
            chunk=CHUNK,
        )
        out.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{error.filename or out}: {error.strerror}") from None
    return out


def _charts(runs: Runs, summary: Summary, beside: Path) -> list[Chart]:
    """The charts that the results give rise to; each is written as a PNG, too."""
    from hopgraph.views import charts

    by_name = {variant["variant"]: variant for variant in summary["variants"]}
    variants = list(by_name.values())
    place = {key: number for number, key in enumerate(runs.questions)}
    tokens: dict[str, list[float]] = {name: [] for name in by_name}
    for record in sorted(runs.records, key=lambda record: place[record["id"]]):
        tokens[record["variant"]].append(record["cost"]["tokens"])
    made = [
        (
            "quality-cost",
            "Answer F1 against tokens a question; bars are 95% intervals.",
            charts.quality_and_cost(variants),
        ),
        (
            "efficiency",
            "Gold passages retrieved against searches; a bubble's area is its EM.",
            charts.efficiency(variants),
        ),
        (
            "cumulative-tokens",
            "Tokens after so many questions, with what reading the corpus beforehand cost.",
            charts.cumulative_tokens(tokens, _read_before(runs)),
        ),
        ("tokens", "Tokens of each question; the bar is the median.", charts.tokens_by_question(tokens)),
    ]
    for setting, rows in _sweeps(runs).items():
        points = [(value, by_name[name]) for value, name in rows if name in by_name]
        caption = f"Answer F1 (left) and tokens a question (right, dashed) by {setting.replace('_', ' ')}."
        made.append((f"sweep-{setting}", caption, charts.sweep(setting, points)))
    beside.mkdir(parents=True, exist_ok=True)  # not before the figures are there: matplotlib may be missing
    shown = []
    for name, caption, figure in made:
        if figure is not None:
            charts.mark(figure, runs.simulations)
            (beside / f"{name}.png").write_bytes(charts.png(figure))
            shown.append(Chart(name, caption, charts.svg(figure)))
    return shown


def _read_before(runs: Runs) -> dict[str, float]:
    """Tokens that reading the corpus cost, of variants that answer from a knowledge base (CompactRAG)."""
    from hopgraph.reading import report

    spent: dict[str, float] = {}
    for name, method in runs.methods.items():
        index = runs.settings[name].get("index")
        if method == "compactrag" and index:
            try:
                base = report(str(index))
            except StoreError:
                continue  # it is not on this machine
            spent[name] = float(sum(part.prompt + part.completion for part in (base.tokens, base.coverage_tokens)))
    return spent


def _sweeps(runs: Runs) -> dict[str, list[tuple[float, str]]]:
    """Numbers that differ between variants of one method which otherwise have the same settings: value and variant."""
    groups: dict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
    for name, values in runs.settings.items():
        for setting, value in values.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                rest = json.dumps({key: values[key] for key in sorted(values) if key != setting})
                groups[setting, runs.methods[name] + rest].append((float(value), name))
    return {setting: rows for (setting, _), rows in groups.items() if len({value for value, _ in rows}) >= SWEPT}


def _overview(runs: Runs) -> list[dict[str, Any]]:
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


def _write_trajectories(runs: Runs, beside: Path) -> dict[str, dict[int, Any]] | None:
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
    from nodes.kit.passages import find

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
