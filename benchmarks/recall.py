"""Mean recall of gold passages by both halves of the store and by their fusion.

    python benchmarks/recall.py DATA [--only hotpotqa --only nq]

DATA has a folder for each set with `corpus.jsonl.gz` and `questions.jsonl.gz` (`gold_ids`). The indexes are made in
HOPGRAPH_HOME under the names `recall-<set>`, and kept: a second run encodes nothing. A question is searched as it is,
once; its recall is the share of its gold articles among the first 5 or 10 articles found, where a hit stands for the
article it was cut from. In the last column it is among the articles of the first 5 or 10 hits, which are fewer where
several hits are of one article. `nq+extra` is nq with `corpus_extra.jsonl.gz` added; the mean leaves it out. All
figures depend on the data and the encoder only.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from stores.build import add_to_index, build_index
from stores.index import Index, Mode, open_index
from stores.passages import read_passages

SETS = ("2wikimultihopqa", "musique", "hotpotqa", "multihoprag", "nq", "popqa")
MODES: tuple[Mode, ...] = ("dense", "sparse", "hybrid")
CUTS = (5, 10)
HITS = 50
"""Enough for ten articles."""


def main(
    data: Annotated[Path, typer.Argument(help="Folder of the data sets.")],
    only: Annotated[list[str] | None, typer.Option(help="Only this set; may be repeated.")] = None,
) -> None:
    """Print a table: a row per set, recall@5/@10 per mode."""
    print(f"{'set':<18}{'passages':>9}{'questions':>10}" + "".join(f"{mode:>15}" for mode in (*MODES, "hybrid, hits")))
    means = []
    for name in only or SETS:
        folder = data / name
        with gzip.open(folder / "questions.jsonl.gz", "rt", encoding="utf-8") as lines:
            questions = [json.loads(line) for line in lines]
        questions = [question for question in questions if question["gold_ids"]]
        build_index(f"recall-{name}", read_passages(folder / "corpus.jsonl.gz"))
        means.append(_row(name, open_index(f"recall-{name}"), questions))
        if (extra := folder / "corpus_extra.jsonl.gz").exists():
            add_to_index(f"recall-{name}", read_passages(extra))
            _row(f"{name}+extra", open_index(f"recall-{name}"), questions)
    mean = np.mean(means, axis=0)
    print(f"{'mean of sets':<37}" + "".join(f"{five:>9.3f}/{ten:.3f}" for five, ten in mean))


def _row(name: str, index: Index, questions: list[dict[str, Any]]) -> list[tuple[float, float]]:
    found = {mode: _articles(index, [question["question"] for question in questions], mode) for mode in MODES}
    row = [_recall([list(dict.fromkeys(ids)) for ids in found[mode]], questions) for mode in MODES]
    row.append(_recall(found["hybrid"], questions))
    figures = "".join(f"{five:>9.3f}/{ten:.3f}" for five, ten in row)
    print(f"{name:<18}{len(index):>9,}{len(questions):>10,}{figures}", flush=True)
    return row


def _articles(index: Index, questions: list[str], mode: Mode) -> list[list[str]]:
    """The article of each hit, best first, for each question."""
    found = index.search_many(questions, HITS, mode)
    passages = index.get(sorted({hit.id for hits in found for hit in hits}))
    article = {passage.id: passage.source or passage.id for passage in passages}
    return [[article[hit.id] for hit in hits] for hits in found]


def _recall(found: list[list[str]], questions: list[dict[str, Any]]) -> tuple[float, float]:
    shares = [
        [len(set(ids[:cut]) & set(question["gold_ids"])) / len(set(question["gold_ids"])) for cut in CUTS]
        for ids, question in zip(found, questions, strict=True)
    ]
    five, ten = np.mean(shares, axis=0)
    return float(five), float(ten)


if __name__ == "__main__":
    typer.run(main)
