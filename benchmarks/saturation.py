"""Throughput of an evaluation relative to its endpoint's, and to lock-step batches.

    hopgraph index DATA/2wikimultihopqa/corpus.jsonl.gz --name 2wiki
    python benchmarks/saturation.py DATA/2wikimultihopqa/questions.jsonl.gz --dataset 2wikimultihopqa --index 2wiki

Without --url perfect agents in a process of their own play the model; every reply takes one second, and 64 are made at
a time. With --spread replies take times as unlike as their lengths would be: log-normal, with the same mean. With --url
a real server is asked (vLLM's cache is reset in between, where it allows that).

Each method is run as `hopgraph eval` runs it, and the requests it makes are recorded: what was asked, and which replies
there were before. Then a bare client sends the very same requests again through the same endpoint, each as soon as
those before it are answered: the physical limit, for it searches nothing, checks nothing and keeps nothing. Then it
sends them in lock-step, as toolkits do that take a whole batch from step to step: the second calls of all questions go
out when all first ones are answered. `bare` and `lock-step` are their times divided by ours: 1 is as fast as can be.

`ideal` is max(seconds of all replies / slots, CPU time of the evaluation / cores) plus the longest chain of calls, and
`x ideal` our time divided by it. What is started once (imports, opening the index) is done before the clock starts, by
a run of two questions, or of all of them with --url. CompactRAG takes part if the index has a knowledge base
(`hopgraph read --perfect`).
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from sending import by_question, depths, recording, send_again, send_in_lock_step
from serving import ReplyTimes, cpu_seconds, forget, serving

from hopgraph import loop
from hopgraph.evaluation import identity, plan, runner
from hopgraph.evaluation.data import Question, sample
from hopgraph.evaluation.datasets import read_questions
from hopgraph.evaluation.folder import RunFolder
from hopgraph.methods import METHODS
from inference.errors import HopgraphError
from inference.settings import get_settings

WORST, LEAST, LOCK_STEP = 1.15, 0.95, 1.5
"""Goals: ours / ideal, bare client / ours, lock-step / ours."""


def main(
    questions: Annotated[Path, typer.Argument(help="Questions; for the simulation with gold decompositions.")],
    dataset: Annotated[str, typer.Option(help="Their dataset.")] = "own",
    index: Annotated[str, typer.Option(help="Index to search.")] = "",
    method: Annotated[str, typer.Option(help="Methods, with commas between them. Default: all.")] = "",
    limit: Annotated[int, typer.Option(help="How many questions.")] = 200,
    latency: Annotated[float, typer.Option(help="Seconds of a simulated reply.")] = 1.0,
    slots: Annotated[int, typer.Option(help="Replies at a time.")] = 64,
    spread: Annotated[float, typer.Option(help="Of simulated replies' times: sigma of a log-normal.")] = 0.0,
    url: Annotated[str, typer.Option(help="A real endpoint instead of the simulation.")] = "",
    max_tokens: Annotated[int, typer.Option(help="Longest reply, of a real endpoint.")] = 128,
) -> None:
    """Print the time of each method beside the three others; exit code 1 if a goal is missed."""
    asked = sample(read_questions(questions, dataset), limit, seed=0)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {len(asked)} questions of {dataset}, {index}")
    times = ReplyTimes(latency, spread)
    print((url and f"{url}, {slots} at a time\n") or f"simulated: {times}, {slots} slots\n")
    head = f"{'method':<14}{'calls':>7}{'chain':>7}{'CPU s':>8}{'ours s':>8}{'bare':>7}{'lock-step':>11}"
    print(head if url else f"{head}{'ideal s':>9}{'x ideal':>9}")
    values: dict[str, Any] = {"index": index} if index else {}
    missed = False
    with serving(asked, index, times, slots, url) as address:
        os.environ |= {"HOPGRAPH_LLM_URL": address, "HOPGRAPH_LLM_CONCURRENCY": str(slots), "HOPGRAPH_CACHE": "off"}
        get_settings.cache_clear()
        values |= {"max_tokens": max_tokens} if url else {}
        for name in method.split(",") if method else METHODS:
            try:
                # A real server prepares itself for sizes of batches that it has not had: the bare client, which comes
                # later, would find that done.
                evaluate(name, asked if url else asked[:2], dataset, values)
                forget(url)
                with recording() as sent:
                    row = evaluate(name, asked, dataset, values)
            except HopgraphError as error:
                print(f"{name:<14} not measured: {error.message}")
                continue
            forget(url)
            bare = loop.run(send_again(address, sent, slots)) / row["seconds"]
            forget(url)
            lock_step = loop.run(send_in_lock_step(address, sent, slots)) / row["seconds"]
            chain = max(max(depths(rows, lambda row: 1).values()) for rows in by_question(sent))
            line = f"{name:<14}{len(sent):>7,}{chain:>7.0f}{row['cpu']:>8.1f}{row['seconds']:>8.1f}"
            line += f"{bare:>7.2f}{lock_step:>11.2f}"
            wrong = ["bare"] if bare < LEAST else []
            # With equal reply times, or one call per question, lock-step never waits.
            wrong += ["lock-step"] if lock_step < LOCK_STEP and chain > 1 and (spread or url) else []
            if not url:
                longest = max(max(depths(rows, times.of).values()) for rows in by_question(sent))
                ideal = max(sum(map(times.of, sent)) / slots, row["cpu"] / (os.cpu_count() or 1)) + longest
                line += f"{ideal:>9.1f}{row['seconds'] / ideal:>9.2f}"
                wrong += ["x ideal"] if row["seconds"] / ideal > WORST else []
            print(line + ("   misses " + ", ".join(wrong) if wrong else ""), flush=True)
            missed |= bool(wrong)
    raise SystemExit(int(missed))


def evaluate(method: str, questions: Sequence[Question], dataset: str, values: dict[str, Any]) -> dict[str, float]:
    """Run the questions as `hopgraph eval` does; returns CPU seconds and seconds."""
    variants = plan.plain_variants([method], values)
    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder(Path(place) / "run")
        about: dict[str, Any] = {"dataset": dataset, "file": "", "limit": None, "seed": None, "set": {}}

        async def run() -> tuple[float, float]:
            found = await identity.check(variants, questions, dataset=dataset, contexts=False)
            identity.start(folder, variants, questions, found, about)
            todo = runner.unfinished(folder, variants, questions)
            started, cpu = time.perf_counter(), cpu_seconds()
            await runner.run_jobs(folder, todo)
            return time.perf_counter() - started, cpu_seconds() - cpu

        seconds, cpu = loop.run(run())
        lines: list[dict[str, Any]] = list(folder.results)
    if any((line.get("error") or {}).get("kind") in runner.RETRIED for line in lines):
        raise SystemExit(f"{method}: calls failed: {next(line['error'] for line in lines if line.get('error'))}")
    return {"cpu": cpu, "seconds": seconds}


if __name__ == "__main__":
    typer.run(main)
