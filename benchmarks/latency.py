"""How much of an evaluation is needless waiting: an endpoint with a fixed latency, and the ideal time beside it.

    hopgraph index DATA/2wikimultihopqa/corpus.jsonl.gz --name 2wiki
    python benchmarks/latency.py DATA/2wikimultihopqa/questions.jsonl.gz --dataset 2wikimultihopqa --index 2wiki

Perfect agents in a process of their own play the model; every reply takes one second, and 64 are made at a time. Ideal
is max(calls x latency / slots, CPU time of the evaluation / cores) plus the longest chain of calls; a method shall need
at most 1.15 times that. What is started once (imports, opening the index) is done before the clock starts, by a run of
two questions. CompactRAG takes part if the index has a knowledge base (`hopgraph read`).
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

import typer

from hopgraph.evaluation import plan, runner
from hopgraph.evaluation.data import Question, read_questions, sample
from hopgraph.evaluation.folder import RunFolder
from hopgraph.methods import METHODS
from hopgraph.simulation.agents import PerfectAgents
from hopgraph.simulation.endpoint import Endpoint
from hopgraph.simulation.gold import cases_of
from hopgraph.simulation.playing import gold_passages
from inference.errors import InputError, StoreError
from inference.settings import get_settings

LIMIT = 1.15


def main(
    questions: Annotated[Path, typer.Argument(help="Questions with gold decompositions.")],
    dataset: Annotated[str, typer.Option(help="Their dataset.")] = "own",
    index: Annotated[str, typer.Option(help="Index to search.")] = "",
    method: Annotated[str, typer.Option(help="Methods, with commas between them. Default: all.")] = "",
    limit: Annotated[int, typer.Option(help="How many questions.")] = 200,
    latency: Annotated[float, typer.Option(help="Seconds of a reply.")] = 1.0,
    slots: Annotated[int, typer.Option(help="Replies at a time.")] = 64,
) -> None:
    """Print the time of each method beside the ideal one; exit code 1 if one of them takes too long."""
    asked = sample(read_questions(questions, dataset), limit, seed=0)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {len(asked)} questions of {dataset}, {index}")
    print(f"latency {latency:g} s, {slots} slots\n")
    print(f"{'method':<14}{'calls':>7}{'chain':>7}{'CPU s':>8}{'ideal s':>9}{'took s':>8}{'ratio':>7}")
    worst = 0.0
    with serving(asked, index, latency, slots) as url:
        os.environ |= {"HOPGRAPH_LLM_URL": url, "HOPGRAPH_LLM_CONCURRENCY": str(slots), "HOPGRAPH_CACHE": "off"}
        get_settings.cache_clear()
        for name in method.split(",") if method else METHODS:
            try:
                evaluate(name, asked[:2], dataset, index)
                row = evaluate(name, asked, dataset, index)
            except (InputError, StoreError) as error:
                print(f"{name:<14} not measured: {error.message}")
                continue
            ideal = max(row["calls"] * latency / slots, row["cpu"] / (os.cpu_count() or 1)) + row["chain"] * latency
            ratio = row["seconds"] / ideal
            worst = max(worst, ratio)
            print(
                f"{name:<14}{row['calls']:>7,.0f}{row['chain']:>7.0f}{row['cpu']:>8.1f}{ideal:>9.1f}"
                f"{row['seconds']:>8.1f}{ratio:>7.2f}{'  too long' if ratio > LIMIT else ''}",
                flush=True,
            )
    if worst > LIMIT:
        raise SystemExit(1)


@contextmanager
def serving(questions: Sequence[Question], index: str, latency: float, slots: int):  # noqa: ANN201
    """The endpoint, in another process, so that its work is not taken for the evaluation's; gives its URL."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there, list(questions), index, latency, slots), daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        process.terminate()
        process.join()


def serve(pipe: Connection, questions: list[Question], index: str, latency: float, slots: int) -> None:
    """What that process does."""
    agents = PerfectAgents(cases_of(questions, gold_passages(questions, index or None)))
    with Endpoint(agents, "simulated-perfect", latency=latency, slots=slots).running() as endpoint:
        pipe.send(endpoint.url)
        time.sleep(24 * 3600)


def evaluate(method: str, questions: Sequence[Question], dataset: str, index: str) -> dict[str, float]:
    """Run the questions as `hopgraph eval` does; gives calls, longest chain, CPU seconds and seconds."""
    variants = plan.plain_variants([method], {"index": index} if index else {})
    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder(Path(place) / "run")
        about = {"dataset": dataset, "file": "", "limit": None, "seed": None, "set": {}}

        async def run() -> tuple[float, float]:
            found = await runner.check(variants, questions, dataset=dataset, contexts=False)
            runner.start(folder, variants, questions, found, about)
            todo = runner.unfinished(folder, variants, questions)
            started, cpu = time.perf_counter(), cpu_seconds()
            await runner.run_jobs(folder, todo)
            return time.perf_counter() - started, cpu_seconds() - cpu

        seconds, cpu = asyncio.run(run())
        lines: list[dict[str, Any]] = list(folder.results)
    if failed := [line for line in lines if line["status"] == "failed"]:
        raise SystemExit(f"{method}: {len(failed)} questions failed, such as {failed[0]['id']}: {failed[0]['error']}")
    calls = sum(line["cost"]["calls"] for line in lines)
    return {"calls": calls, "chain": max(line["cost"]["chain"] for line in lines), "cpu": cpu, "seconds": seconds}


def cpu_seconds() -> float:
    """CPU time of this process with all its threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    typer.run(main)
