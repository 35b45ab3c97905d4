"""Mean recall of gold passages by both halves of the store, by their fusion, and by bridging.

    python benchmarks/recall.py DATA [--only hotpotqa --only nq] [--together [--made-up 100000]]
    python benchmarks/recall.py DATA --steps [--only musique]

DATA has a folder for each set with `corpus.jsonl.gz` and `questions.jsonl.gz` (`gold_ids`). The indexes are made in
HOPGRAPH_HOME under the names `recall-<set>`, and kept: a second run encodes nothing. A question is searched as it is,
once; its recall is the share of its gold articles among the first 5 or 10 articles found, where a hit stands for the
article it was cut from. "All gold" is the share of questions with all gold articles among the first five. In the column
"hybrid, hits" recall is among the articles of the first 5 or 10 hits, which are fewer where
several hits are of one article. `nq+extra` is nq with `corpus_extra.jsonl.gz` added; the mean leaves it out.
`--together` searches one index of all sets, where each set's passages are distractors to the others' questions; an
article that several sets have counts only as the set's own. `--made-up` adds synthetic passages (`scale.py`) up to that
number. All figures depend on the data and the encoder only.

`--steps` searches for the steps of gold decompositions instead, as perfect agents ask for them once the earlier answers
are known, and prints the share whose gold article is among the first 1, 2, 3, 5 or 10. They are those of MuSiQue, and
of 2WikiMultiHopQA's compositional questions, whose gold articles are in the order of the steps.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from scale import MadeUp, built_of

from hopgraph.evaluation.data import Question
from hopgraph.evaluation.datasets import read_questions
from hopgraph.simulation.gold import cases_of
from stores.build import add_to_index, build_index
from stores.index import Index, Mode, open_index
from stores.passages import read_passages

SETS = ("2wikimultihopqa", "musique", "hotpotqa", "multihoprag", "nq", "popqa")
MODES: tuple[Mode, ...] = ("dense", "sparse", "hybrid", "bridge")
CUTS = (5, 10)
STEP_CUTS = (1, 2, 3, 5, 10)
HITS = 50
"""Enough for ten articles."""
Questions = list[dict[str, Any]]


def main(
    data: Annotated[Path, typer.Argument(help="Folder of the data sets.")],
    only: Annotated[list[str] | None, typer.Option(help="Only this set; may be repeated.")] = None,
    together: Annotated[bool, typer.Option(help="Search one index of all sets.")] = False,
    made_up: Annotated[int, typer.Option(help="With --together: passages of the index, synthetic ones added.")] = 0,
    steps: Annotated[bool, typer.Option(help="Search for the steps of gold decompositions instead.")] = False,
) -> None:
    """Print a table: a row per set, recall@5/@10 per mode, and the share of questions with all gold among five."""
    if steps:
        if together:
            raise typer.BadParameter("needs each set's own index", param_hint="--steps")
        _print_steps(data, only or ["2wikimultihopqa", "musique"])
        return
    heads = "".join(f"{head:>15}" for head in (*MODES, "hybrid, hits", "all: hybrid", "all: bridge"))
    print(f"{'set':<18}{'passages':>9}{'questions':>10}{heads}")
    sets = only or list(SETS)
    if together:
        build_index("recall-together", (p for name in sets for p in read_passages(data / name / "corpus.jsonl.gz")))
        whole = open_index("recall-together")
        if made_up > len(whole):
            _, whole = built_of(MadeUp(whole, made_up))
    means = []
    for name in sets:
        folder = data / name
        with gzip.open(folder / "questions.jsonl.gz", "rt", encoding="utf-8") as lines:
            questions = [json.loads(line) for line in lines]
        questions = [question for question in questions if question["gold_ids"]]
        if not together:
            build_index(f"recall-{name}", read_passages(folder / "corpus.jsonl.gz"))
        means.append(_row(name, whole if together else open_index(f"recall-{name}"), questions))
        if not together and (extra := folder / "corpus_extra.jsonl.gz").exists():
            add_to_index(f"recall-{name}", read_passages(extra))
            _row(f"{name}+extra", open_index(f"recall-{name}"), questions)
    print(f"{'mean of sets':<37}{_figures(np.mean(means, axis=0))}")


def _print_steps(data: Path, sets: list[str]) -> None:
    cuts = "".join(f"{f'@{cut}':>8}" for cut in STEP_CUTS)
    print(f"{'set':<18}{'steps':>7}  {'mode':<8}{cuts}")
    for name in sets:
        questions = read_questions(data / name / "questions.jsonl.gz", name)
        steps = [step for question in questions for step in _steps(question)]
        if not steps:
            raise typer.BadParameter(f"{name} has no steps with a gold article", param_hint="--only")
        build_index(f"recall-{name}", read_passages(data / name / "corpus.jsonl.gz"))
        index = open_index(f"recall-{name}")
        for mode in MODES:
            found = _articles(index, [query for query, _ in steps], mode)
            ranks = [
                list(dict.fromkeys(ids)).index(gold) if gold in ids else HITS
                for ids, (_, gold) in zip(found, steps, strict=True)
            ]
            shares = "".join(f"{np.mean(np.array(ranks) < cut):>8.3f}" for cut in STEP_CUTS)
            print(f"{name:<18}{len(steps):>7,}  {mode:<8}{shares}", flush=True)


def _steps(question: Question) -> list[tuple[str, str]]:
    """What perfect agents ask for each step of a question, and its gold article."""
    gold = tuple(step.gold_id for step in question.decomposition)
    if question.type == "compositional" and len(question.gold_ids) == len(gold):
        gold = question.gold_ids
    if not any(gold):
        return []
    [case] = cases_of([question], {})
    answers = {fact.number: fact.answer for fact in case.facts}
    return [(case.ask(fact, answers), article) for fact, article in zip(case.facts, gold, strict=True) if article]


def _row(name: str, index: Index, questions: Questions) -> list[tuple[float, float, float]]:
    found = {mode: _articles(index, [question["question"] for question in questions], mode) for mode in MODES}
    row = [_recall([list(dict.fromkeys(ids)) for ids in found[mode]], questions) for mode in MODES]
    row.append(_recall(found["hybrid"], questions))
    print(f"{name:<18}{len(index):>9,}{len(questions):>10,}{_figures(row)}", flush=True)
    return row


def _figures(row: Iterable[Sequence[float]]) -> str:
    recalls = list(row)
    whole = "".join(f"{recalls[MODES.index(mode)][2]:>15.3f}" for mode in ("hybrid", "bridge"))
    return "".join(f"{five:>9.3f}/{ten:.3f}" for five, ten, _ in recalls) + whole


def _articles(index: Index, questions: list[str], mode: Mode) -> list[list[str]]:
    """The article of each hit, best first, for each question."""
    found = index.search_many(questions, HITS, mode)
    passages = index.get(sorted({hit.id for hits in found for hit in hits}))
    article = {passage.id: passage.source or passage.id for passage in passages}
    return [[article[hit.id] for hit in hits] for hits in found]


def _recall(found: list[list[str]], questions: Questions) -> tuple[float, float, float]:
    """Recall at five and ten, and the share of questions with recall 1 at five."""
    shares = np.array(
        [
            [len(set(ids[:cut]) & set(question["gold_ids"])) / len(set(question["gold_ids"])) for cut in CUTS]
            for ids, question in zip(found, questions, strict=True)
        ]
    )
    five, ten = shares.mean(axis=0)
    return float(five), float(ten), float((shares[:, 0] == 1).mean())


if __name__ == "__main__":
    typer.run(main)
