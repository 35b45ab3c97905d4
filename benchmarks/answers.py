"""Answers of the embedded model by every method, with its adapter and without, on questions over whole corpora.

    python benchmarks/answers.py DATA OUT [--limit 200] [--only 2wikimultihopqa] [--method all] [--set retriever=bridge]

DATA has a folder for each set with `corpus.jsonl.gz` and `questions.jsonl.gz`. The indexes are made in HOPGRAPH_HOME
under the names `recall-<set>`, and kept. Each set is evaluated twice, as `hopgraph eval` does it, with the
adapter of HOPGRAPH_EMBEDDED_LORA and with none, into OUT/<set>-tuned and OUT/<set>-plain; an interrupted run goes on
when it is started again. `--no-plain` leaves the second run out. CompactRAG takes part if the index has a knowledge
base.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from hopgraph.evaluation.folder import RunFolder
from hopgraph.evaluation.summary import Estimate, VariantSummary, summarise
from stores.build import build_index
from stores.index import open_index
from stores.passages import read_passages

SETS = ("2wikimultihopqa", "hotpotqa", "musique")
TUNED, PLAIN = "tuned", "plain"


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
        questions = data / name / "questions.jsonl.gz"
        index = f"recall-{name}"
        build_index(index, read_passages(data / name / "corpus.jsonl.gz"))
        folders = {}
        for model in (TUNED, PLAIN) if plain else (TUNED,):
            folder = out / f"{name}-{model}"
            run = ["--resume", str(folder)]
            if not RunFolder(folder).started:
                run = ["--method", method, "--dataset", name, "--questions", str(questions), "--index", index]
                run += ["--limit", str(limit), "--seed", "0", "--out", str(folder)]
                run += [part for pair in set_ or () for part in ("--set", pair)]
            environment = {**os.environ, "HOPGRAPH_EMBEDDED_LORA": "none"} if model == PLAIN else dict(os.environ)
            command = [sys.executable, "-m", "hopgraph", "eval", *run]
            # Failed questions make the exit code 1; they are in the table.
            if subprocess.run(command, env=environment, stdout=subprocess.DEVNULL).returncode > 1:
                raise typer.Exit(1)
            folders[model] = RunFolder(folder)
        _print(name, len(open_index(index)), folders)


def _print(name: str, passages: int, folders: dict[str, RunFolder]) -> None:
    found = {model: _variants(folder) for model, folder in folders.items()}
    rows = next(iter(found.values()))
    print(f"\n{name}: {rows[0]['n']} questions, {passages:,} passages")
    heads = "".join(f"{head:>8}" for head in ("EM", "F1", "recall", "calls", "sec", "repairs", "failed"))
    print(" " * 20 + "".join(f"{model:>{len(heads)}}" for model in found))
    print(f"{'method':<20}" + heads * len(found))
    for same in zip(*found.values(), strict=True):
        print(f"{same[0]['variant']:<20}" + "".join(map(_cells, same)))


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
