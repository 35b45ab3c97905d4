"""How long a command takes to start.

    hopgraph index DATA/2wikimultihopqa/corpus.jsonl.gz --name 2wiki
    python benchmarks/startup.py 2wiki "Where was the director of Days of Betrayal born?"

Each command is a new process, over and over in turn with the others; the median counts. `ask` is asked of an endpoint
that answers at once, so that all of its time is ours: imports, opening the index, the encoder, one search, the graph,
the checkpoints. What it is measured by: Python alone, and the imports that `ask` can't do without.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Annotated

import typer

from hopgraph.simulation.endpoint import Completion, Endpoint

COMMANDS = {
    "python": ["-c", "pass"],
    "import langgraph, chromadb, bm25s": ["-c", "import langgraph.graph, chromadb, bm25s"],
    "hopgraph --help": ["-m", "hopgraph", "--help"],
    "hopgraph ask --help": ["-m", "hopgraph", "ask", "--help"],
}


def main(
    index: Annotated[str, typer.Argument(help="The index that is asked.")],
    question: Annotated[str, typer.Argument(help="The question.")],
    rounds: Annotated[int, typer.Option(help="Starts of each command.")] = 7,
) -> None:
    """Print each command's median time."""
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; median of {rounds} starts\n")
    ask = ["-m", "hopgraph", "ask", "--method", "standard_rag", "--index", index, question]
    spent: dict[str, list[float]] = {}
    with (
        Endpoint(lambda request: Completion('{"answer": "Prague"}'), "scripted").running() as endpoint,
        tempfile.TemporaryDirectory() as place,
    ):
        settings = {
            "HOPGRAPH_LLM_URL": endpoint.url,
            "HOPGRAPH_CACHE": "off",
            "HOPGRAPH_CHECKPOINTS": f"{place}/c.sqlite",
        }
        for _ in range(rounds + 1):  # the first one finds the disk cold
            for name, words in {**COMMANDS, f"hopgraph ask, standard_rag, {index}": ask}.items():
                started = time.perf_counter()
                made = subprocess.run(
                    [sys.executable, *words], env={**os.environ, **settings}, capture_output=True, text=True
                )
                spent.setdefault(name, []).append(time.perf_counter() - started)
                if made.returncode:
                    raise SystemExit(f"{name} failed: {made.stderr}")
    medians = {name: statistics.median(times[1:]) for name, times in spent.items()}
    print(f"{'':<40}{'ms':>8}{'x python':>10}")
    for name, seconds in medians.items():
        print(f"{name:<40}{1e3 * seconds:>8.0f}{seconds / medians['python']:>10.1f}")


if __name__ == "__main__":
    typer.run(main)
