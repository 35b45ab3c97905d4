"""Tokens as questions add up, reading the corpus included, beside the paper's (CompactRAG, Fig. 3 and Table 2).

    python benchmarks/pooled.py QUESTIONS --dataset hotpotqa --to POOL
    hopgraph index POOL/corpus.jsonl --name pool && hopgraph read --index pool
    hopgraph eval --suite compactrag-tokens --dataset hotpotqa --questions POOL/questions.jsonl --index pool --out RUN
    python benchmarks/token_curve.py RUN

The paper prints no numbers of its figure; its tokens a question, in Table 2, are the slopes of its curves. `pays off
after` is the number of questions after which CompactRAG has cost less, its reading included.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Annotated

import typer

from hopgraph.evaluation.folder import RunFolder
from hopgraph.evaluation.papers import beside
from hopgraph.evaluation.summary import summarise
from hopgraph.knowledge.report import report
from inference.errors import HopgraphError

OURS = "compactrag"


def main(
    run: Annotated[Path, typer.Argument(help="Folder of a run of the suite compactrag-tokens.")],
    at: Annotated[
        str, typer.Option(help="After how many questions, with commas between them.")
    ] = "1,50,100,150,200,250",
) -> None:
    """Print a row a method."""
    try:
        folder = RunFolder(run)
        about, records = folder.about(), folder.records()
        by_id = {question.id: question for question in folder.questions()}
        tokens: dict[str, list[float]] = {}
        for record in records:
            tokens.setdefault(record["variant"], []).append(record["cost"]["tokens"])
        printed = beside(summarise(records, by_id, [*tokens], None), about["dataset"])
        paper = {
            name: row["tokens"]["paper"] for one in printed for name, row in one["rows"].items() if "tokens" in row
        }
        base = report(about["identity"]["index"]["name"])
        read = float(sum(part.prompt + part.completion for part in (base.tokens, base.coverage_tokens)))
        counts = [int(count) for count in at.split(",")]
    except (HopgraphError, ValueError) as error:
        typer.echo(f"{error}\n{getattr(error, 'hint', '')}".rstrip(), err=True)
        raise typer.Exit(getattr(error, "exit_code", 2)) from None
    print(table(tokens, read, paper, counts))


def table(
    tokens: Mapping[str, Sequence[float]], read: float, paper: Mapping[str, float | None], counts: Sequence[int]
) -> str:
    """Markdown: tokens a question here and in the paper, tokens after so many questions, and when reading pays off.

    Args:
        tokens: Of each question in its order, by method.
        read: Spent before the first question, for CompactRAG alone.
        paper: The paper's tokens a question, by method.
        counts: After how many questions; those beyond the run's are left out.
    """
    most = max(map(len, tokens.values()), default=0)
    shown = [count for count in counts if 1 <= count <= most]
    titles = ["method", "a question", "paper", *(f"after {count}" for count in shown), f"{OURS} pays off after"]
    lines = ["| " + " | ".join(titles) + " |", "|---|" + "---:|" * (len(titles) - 1)]
    ours = _mean(tokens.get(OURS, ()))
    for name, row in tokens.items():
        curve = list(accumulate(row, initial=read if name == OURS else 0.0))
        saved = _mean(row) - ours
        off = "-" if name == OURS or OURS not in tokens else f"{math.ceil(read / saved):,}" if saved > 0 else "never"
        figure = paper.get(name)
        cells = [name, f"{_mean(row):,.0f}", "-" if figure is None else f"{figure:,.0f}"]
        cells += [f"{curve[count]:,.0f}" if count < len(curve) else "-" for count in shown]
        lines.append("| " + " | ".join([*cells, off]) + " |")
    return "\n".join([*lines, "", f"read beforehand: {read:,.0f} tokens"])


def _mean(row: Sequence[float]) -> float:
    return sum(row) / len(row) if row else 0.0


if __name__ == "__main__":
    typer.run(main)
