"""Accuracy of PAR-RAG's attribution judge on claims with references.

    python benchmarks/attribution.py DATA/train/attribution.jsonl.gz [--limit 300] [--attribution attrscore]

Rows are of AttributionBench:
`question`, `claim`, `references`, `label` (`attributable` or `not attributable`), `source`.
The judge is the graph's own, prompt, schema and repair included, at the endpoint that the environment names (without
one, the embedded model), or the scorer at HOPGRAPH_ATTRIBUTION_URL. `contradictory` and `extrapolatory` count as not
attributable. The sample is even over sources and labels as far as they go, and the same for the same seed. A reply that
can't be read counts as wrong.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import math
import random
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from rich.console import Console
from rich.progress import track
from typing_extensions import TypedDict

from hopgraph.run import make_context
from nodes.parrag.context import ParContext
from nodes.parrag.judges import ask_attribution
from stores.passages import Passage

GOLD = ("attributable", "not attributable")
SAID = ("attributable", "extrapolatory", "contradictory", "unreadable")


class Row(TypedDict, total=False):
    """A claim, and the judge's verdict."""

    number: int
    question: str
    claim: str
    references: list[str]
    said: str


async def judge(state: Row, runtime: Runtime[ParContext]) -> dict[str, Any]:
    """The node that calls the judge."""
    passages = [Passage(id="", title="", text=reference) for reference in state["references"]]
    asked = await ask_attribution(runtime, state["question"], state["claim"], passages, at=f"row/{state['number']}")
    return {"said": asked.value.label if asked.value else "unreadable"}


def main(
    data: Annotated[Path, typer.Argument(help="attribution.jsonl.gz")],
    limit: Annotated[int, typer.Option(help="Rows at most.")] = 300,
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 0,
    attribution: Annotated[Literal["model", "attrscore"], typer.Option(help="Who is asked.")] = "model",
    max_tokens: Annotated[int, typer.Option(help="Longest reply.")] = 32,
) -> None:
    """Print a confusion matrix, accuracy and macro-F1, and accuracy by source."""
    with gzip.open(data, "rt", encoding="utf-8") as lines:
        rows = sample([json.loads(line) for line in lines], limit, seed)
    context = make_context("parrag", {"attribution": attribution, "max_tokens": max_tokens})
    context.check()
    said = asyncio.run(_judge_all(rows, context))
    print(report(rows, said))


def sample(rows: list[dict[str, Any]], limit: int, seed: int) -> list[dict[str, Any]]:
    """At most `limit` rows, round-robin over source and label, shuffled by the seed."""
    shuffled = random.Random(seed).sample(rows, len(rows))
    turn: Counter[tuple[str, str]] = Counter()
    ranked = []
    for row in shuffled:
        group = (row["source"], row["label"])
        ranked.append((turn[group], row))
        turn[group] += 1
    return [row for _, row in sorted(ranked, key=lambda pair: pair[0])][:limit]


async def _judge_all(rows: list[dict[str, Any]], context: Any) -> list[str]:
    builder = StateGraph(Row, context_schema=ParContext)
    builder.add_node("judge", judge)
    builder.add_edge(START, "judge")
    builder.add_edge("judge", END)
    graph = builder.compile()
    side_by_side = asyncio.Semaphore(16)
    said = [""] * len(rows)

    async def one(number: int) -> None:
        async with side_by_side:
            row = rows[number]
            given = {key: row[key] for key in ("question", "claim", "references")}
            said[number] = (await graph.ainvoke({"number": number, **given}, context=context))["said"]

    tasks = [asyncio.create_task(one(number)) for number in range(len(rows))]
    for done in track(asyncio.as_completed(tasks), "claims", total=len(tasks), console=Console(stderr=True)):
        await done
    return said


def report(rows: list[dict[str, Any]], said: list[str]) -> str:
    """The tables, as Markdown."""
    pairs = Counter((row["label"], label) for row, label in zip(rows, said, strict=True))
    right = [
        label in (SAID[:1] if row["label"] == GOLD[0] else SAID[1:3]) for row, label in zip(rows, said, strict=True)
    ]
    accuracy = sum(right) / len(right)
    margin = 1.96 * math.sqrt(accuracy * (1 - accuracy) / len(right))
    lines = [
        f"{len(rows)} claims, accuracy {accuracy:.3f} ± {margin:.3f}, macro-F1 {_macro_f1(pairs):.3f}",
        "",
        "| true | " + " | ".join(SAID) + " |",
        "|---|" + "---:|" * len(SAID),
        *(f"| {gold} | " + " | ".join(str(pairs[gold, label]) for label in SAID) + " |" for gold in GOLD),
        "",
        "| source | claims | right |",
        "|---|---:|---:|",
    ]
    for source in sorted({row["source"] for row in rows}):
        of = [ok for row, ok in zip(rows, right, strict=True) if row["source"] == source]
        lines.append(f"| {source} | {len(of)} | {sum(of) / len(of):.3f} |")
    return "\n".join(lines)


def _macro_f1(pairs: Counter[tuple[str, str]]) -> float:
    """Mean F1 of both classes; a reply that can't be read is in neither."""
    scores = []
    for gold, labels in zip(GOLD, (SAID[:1], SAID[1:3]), strict=True):
        hit = sum(pairs[gold, label] for label in labels)
        said = sum(pairs[other, label] for other in GOLD for label in labels)
        true = sum(pairs[gold, label] for label in SAID)
        scores.append(2 * hit / (said + true) if said + true else 0.0)
    return sum(scores) / len(scores)


if __name__ == "__main__":
    typer.run(main)
