"""Answers of the embedded model by every method, with its adapter and without, on questions over whole corpora.

    python benchmarks/answers.py DATA OUT [--limit 200] [--only 2wikimultihopqa] [--method all] [--set retriever=bridge]

DATA has a folder for each set with `corpus.jsonl.gz` and `questions.jsonl.gz`. The indexes are made in HOPGRAPH_HOME
under the names `recall-<set>`, and kept. Each set is evaluated twice, as `hopgraph eval` does it: with the adapter of
HOPGRAPH_EMBEDDED_LORA (by default the bundled one) into OUT/<set>-tuned, and with none into OUT/<set>-plain. An
interrupted run goes on when it is started again. `--no-plain` leaves the second run out. CompactRAG takes part if the
index has a knowledge base.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from hopgraph.evaluation.folder import RunFolder
from hopgraph.evaluation.summary import Estimate, VariantSummary, summarise
from stores.build import build_index
from stores.index import open_index
from stores.passages import read_passages

SETS = ("2wikimultihopqa", "hotpotqa", "musique")


def main(
    data: Annotated[Path, typer.Argument(help="Folder of the data sets.")],
    out: Annotated[Path, typer.Argument(help="Folder for the runs.")],
    only: Annotated[list[str] | None, typer.Option(help="Only this set; may be repeated.")] = None,
    method: Annotated[str, typer.Option(help="Methods separated by commas, or all.")] = "all",
    limit: Annotated[int, typer.Option(help="Questions of a set.")] = 200,
    set_: Annotated[list[str] | None, typer.Option("--set", help="KEY=VALUE of all methods; may be repeated.")] = None,
    plain: Annotated[bool, typer.Option(help="Also without the adapter.")] = True,
) -> None:
    """Print a table for each set: a row per method, with the adapter and without."""
    for name in only or SETS:
        index = f"recall-{name}"
        build_index(index, read_passages(data / name / "corpus.jsonl.gz"))
        run = ["--method", method, "--dataset", name, "--questions", str(data / name / "questions.jsonl.gz")]
        run += ["--index", index, "--limit", str(limit), "--seed", "0"]
        run += [part for pair in set_ or () for part in ("--set", pair)]
        found = {"tuned": evaluated(out / f"{name}-tuned", run, {})}
        if plain:
            found["plain"] = evaluated(out / f"{name}-plain", run, {"HOPGRAPH_EMBEDDED_LORA": "none"})
        show(name, len(open_index(index)), found)


def evaluated(folder: Path, words: Sequence[str], variables: Mapping[str, str]) -> dict[str, VariantSummary]:
    """Rows of an evaluation by method: `hopgraph eval` with these words, or the rest of it if `folder` has a part."""
    run = ["--resume", str(folder)] if RunFolder(folder).started else [*words, "--out", str(folder)]
    command = [sys.executable, "-m", "hopgraph", "eval", *run]
    # Failed questions make the exit code 1; they are in the table.
    if subprocess.run(command, env={**os.environ, **variables}, stdout=subprocess.DEVNULL).returncode > 1:
        raise typer.Exit(1)
    return {row["variant"]: row for row in _variants(RunFolder(folder))}


def show(name: str, passages: int, found: Mapping[str, Mapping[str, VariantSummary]]) -> None:
    """Print a set's table: a row per method, columns per evaluation."""
    first = next(iter(found.values()))
    print(f"\n{name}: {next(iter(first.values()))['n']} questions, {passages:,} passages")
    heads = "".join(f"{head:>8}" for head in ("EM", "F1", "recall", "calls", "sec", "repairs", "failed"))
    print(" " * 20 + "".join(f"{which:>{len(heads)}}" for which in found))
    print(f"{'method':<20}" + heads * len(found))
    for method in dict.fromkeys(method for rows in found.values() for method in rows):
        cells = [_cells(rows[method]) if method in rows else " " * len(heads) for rows in found.values()]
        print(f"{method:<20}" + "".join(cells), flush=True)


def _variants(folder: RunFolder) -> list[VariantSummary]:
    questions = {question.id: question for question in folder.questions()}
    records = folder.records()
    return summarise(records, questions, list(dict.fromkeys(record["variant"] for record in records)))["variants"]


def _cells(row: VariantSummary) -> str:
    scores, costs = row["metrics"], row["costs"]
    calls = _mean(costs["calls"])
    share = _mean(costs["repairs"]) / calls if calls else 0.0
    return "".join(
        f"{value:>8}"
        for value in (
            *(f"{100 * _mean(scores.get(name)):.1f}" for name in ("em", "f1", "retrieved_recall")),
            f"{calls:.1f}",
            f"{_mean(costs['seconds']):.1f}",
            f"{share:.1%}",
            f"{row['failed'] / row['n']:.1%}",
        )
    )


def _mean(found: Estimate | None) -> float:
    return found["mean"] if found else 0.0


if __name__ == "__main__":
    typer.run(main)
