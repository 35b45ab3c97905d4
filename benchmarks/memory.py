"""Peak memory of building an index of ten gigabytes of text, by measuring smaller ones.

    python benchmarks/memory.py [--sizes 200,400,800] [--vectors 25000,50000,100000]

Each size is a file of JSON Lines with made-up passages that is indexed by a process of its own, all but the dense half:
it is read and hashed, and the sparse half and the links are built. Every passage has a title of its own, and names some
others. Sentences are given, vectors are random, and nothing is split or encoded: that memory does not depend on the
size. The dense half is built shard by shard, each in a process of its own (`stores.workers`): its memory is that of the
largest shard, and is measured for smaller ones, and so is what the first process holds meanwhile.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import psutil
import typer

from hopgraph.reading import read_sources
from inference.encoders.vectors import Vectors, unit
from stores.build import MOST_IN_SHARD, build_index
from stores.chroma import Chroma
from stores.manifest import Manifest
from stores.workers import STORED, InProcess

GOAL = 2_000
"""Megabytes of memory for `LARGE` megabytes of text."""
LARGE = 10_000
DIMENSION = 384


class RandomVectors:
    """In the place of an encoder."""

    id = "random/384"
    dimension = DIMENSION

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, shape (texts, 384)."""
        return unit(self._random.normal(size=(len(texts), DIMENSION)).astype(np.float32))

    encode_queries = encode_passages


class AllButDense(InProcess):
    """Leaves out the dense half."""

    held = 0.0
    """Megabytes of this process when the dense half would be stored."""

    def store(self, version: Path, manifest: Manifest, on_stored: Callable[[int], None]) -> None:
        """Store nothing."""
        self.held = psutil.Process().memory_info().rss / 1e6


def main(
    sizes: Annotated[str, typer.Option(help="Megabytes of text, with commas between them.")] = "200,400,800",
    vectors: Annotated[str, typer.Option(help="Vectors of a shard, with commas between them.")] = "25000,50000,100000",
    one: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Print a line for each size and the slopes; exit code 1 if the goal is missed."""
    if one:
        kind, _, size = one.partition(":")
        with tempfile.TemporaryDirectory() as folder:
            os.environ["HOPGRAPH_HOME"] = str(Path(folder, "home"))
            print(json.dumps({"text": of_text, "shard": of_shard}[kind](Path(folder), int(size))))
        return
    print(f"{'MB of text':>10} {'passages':>10} {'until read, MB':>15} {'peak, MB':>9} {'at its end':>11}", flush=True)
    texts = [int(size) for size in sizes.split(",")]
    rows = []
    for size in texts:
        rows.append(row := measured("text", size))
        figures = f"{row['read']:>15,.0f} {row['peak']:>9,.0f} {row['end']:>11,.0f}"
        print(f"{size:>10,} {row['passages']:>10,.0f} {figures}", flush=True)
    print(f"\n{'vectors of a shard':>20} {'peak, MB':>9}", flush=True)
    counts = [int(count) for count in vectors.split(",")]
    shards = []
    for count in counts:
        shards.append(measured("shard", count)["peak"])
        print(f"{count:>20,} {shards[-1]:>9,.0f}", flush=True)
    print()
    whole = extrapolated(texts, [row["peak"] for row in rows], LARGE, "a megabyte of text", "all but the dense half")
    end = extrapolated(texts, [row["end"] for row in rows], LARGE, "a megabyte of text", "the same at its end")
    shard = extrapolated(counts, shards, MOST_IN_SHARD, "a vector", "a shard")
    peak_of_all = max(whole, end + shard)
    print(f"peak: {peak_of_all:,.0f} MB; goal for {LARGE:,} MB: at most {GOAL:,} MB")
    raise typer.Exit(int(peak_of_all > GOAL))


def measured(kind: str, size: int) -> dict[str, float]:
    """The figures of one size, by a process of its own."""
    command = [sys.executable, __file__, "--one", f"{kind}:{size}"]
    variables = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def extrapolated(sizes: Sequence[int], peaks: Sequence[float], size: int, unit_of: str, what: str) -> float:
    """Megabytes at a size, by a line through the measured ones, which is printed."""
    slope, base = np.polyfit(sizes, peaks, 1)
    found = float(base + slope * size)
    print(f"{what}: {base:,.0f} MB + {slope:.2g} MB {unit_of}; {found:,.0f} MB at {size:,}")
    return found


def of_text(folder: Path, size: int) -> dict[str, float]:
    """Megabytes of this process while it indexes passages, all but the dense half: until read, at most, at its end."""
    path = folder / "passages.jsonl"
    write_passages(path, size * 1_000_000)
    read = 0.0

    def progress(stage: str, done: int, total: int | None) -> None:
        nonlocal read
        if stage == "read":
            read = peak()

    encoder = RandomVectors()
    workers = AllButDense(encoder)
    built = build_index("memory", read_sources([path]), encoder=encoder, workers=workers, progress=progress)
    return {"passages": built.manifest.passages, "read": read, "peak": peak(), "end": workers.held}


def of_shard(folder: Path, count: int) -> dict[str, float]:
    """Peak megabytes of this process while it stores a shard."""
    texts = [""] * STORED
    Chroma(folder / "dense").build(RandomVectors().encode_passages(texts) for _ in range(count // STORED))
    return {"peak": peak()}


def peak() -> float:
    """Peak resident megabytes of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / (1e6 if sys.platform == "darwin" else 1e3)


def write_passages(path: Path, size: int) -> None:
    """Made-up prose: words of a vocabulary that grows with the text, as natural ones do, frequent ones first."""
    chooser = random.Random(size)
    names = size // 200

    def name() -> str:
        number = chooser.randrange(names)
        return f"Name{number % 5_000} of Place{number}"

    with path.open("w", encoding="utf-8") as file:
        written = row = 0
        while written < size:
            sentences = []
            for _ in range(chooser.randint(4, 12)):
                words = [f"word{min(int(chooser.paretovariate(0.7)), size)}" for _ in range(chooser.randint(6, 24))]
                sentences.append(" ".join([name(), *words] if chooser.random() < 0.3 else words).capitalize() + ".")
            text = " ".join(sentences)
            written += len(text)
            title = f"Name{row % 5_000} of Place{row}"
            file.write(json.dumps({"id": f"p{row}", "title": title, "text": text, "sentences": sentences}) + "\n")
            row += 1


if __name__ == "__main__":
    typer.run(main)
