"""Peak memory of indexing text files, by size, and what it would be for ten gigabytes.

    python benchmarks/memory.py [--sizes 5,10,20]

Each size is one text file of made-up prose, indexed by a process of its own. Vectors are random and nothing is encoded:
an encoder's memory does not depend on the size. `reading` is the peak until all passages are read and split; `whole` is
that of the whole build, of which Chroma's graph is made in memory.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from hopgraph.reading import read_sources
from inference.encoders.vectors import Vectors, unit
from stores.build import build_index

GOAL = 2_000
"""Megabytes of memory for `LARGE` megabytes of text."""
LARGE = 10_000
DIMENSION = 384


class RandomVectors:
    """In the place of an encoder."""

    id = "random/384"
    dimension = DIMENSION

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, shape (texts, 384)."""
        return unit(np.random.default_rng(len(texts)).normal(size=(len(texts), DIMENSION)).astype(np.float32))

    encode_queries = encode_passages


def main(
    sizes: Annotated[str, typer.Option(help="Megabytes of text, with commas between them.")] = "5,10,20",
    one: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Print a line for each size and the slopes; exit code 1 if the goal is missed."""
    if one:
        print(json.dumps(measure(Path(one))))
        return
    wanted = [int(size) for size in sizes.split(",")]
    rows = []
    print(f"{'MB of text':>10} {'passages':>9} {'reading, MB':>12} {'whole, MB':>10}")
    for size in wanted:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "text.txt")
            write_text(path, size * 1_000_000)
            command = [sys.executable, __file__, "--one", str(path)]
            variables = {**os.environ, "HOPGRAPH_HOME": str(Path(folder, "home")), "PYTHONPATH": str(Path.cwd())}
            done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=True)
        row = json.loads(done.stdout)
        rows.append(row)
        print(f"{size:>10,} {row['passages']:>9,} {row['reading']:>12,.0f} {row['whole']:>10,.0f}", flush=True)
    missed = False
    for part in ("reading", "whole"):
        slope, base = np.polyfit(wanted, [row[part] for row in rows], 1)
        large = base + slope * LARGE
        missed = missed or large > GOAL
        print(f"{part}: {base:,.0f} MB + {slope:.2f} MB a megabyte of text; {large:,.0f} MB for {LARGE:,} MB")
    print(f"goal: at most {GOAL:,} MB for {LARGE:,} MB: {'missed' if missed else 'met'}")
    raise typer.Exit(int(missed))


def measure(path: Path) -> dict[str, float]:
    """Peak megabytes of this process while it indexes a file."""
    reading = [0.0]

    def progress(stage: str, done: int, total: int | None) -> None:
        if stage == "read":
            reading[0] = peak()

    built = build_index("memory", read_sources([path]), encoder=RandomVectors(), progress=progress)
    return {"passages": built.manifest.passages, "reading": reading[0], "whole": peak()}


def peak() -> float:
    """Peak resident megabytes of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / (1e6 if sys.platform == "darwin" else 1e3)


def write_text(path: Path, size: int) -> None:
    """Made-up prose: words of a vocabulary that grows with the text, as natural ones do, frequent ones first."""
    chooser = random.Random(size)
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < size:
            for _ in range(1_000):
                words = [f"word{min(int(chooser.paretovariate(0.7)), size)}" for _ in range(chooser.randint(6, 24))]
                file.write(" ".join(words).capitalize() + (".\n\n" if chooser.random() < 0.2 else ". "))


if __name__ == "__main__":
    typer.run(main)
