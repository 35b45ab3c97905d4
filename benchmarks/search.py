"""Speed of indexing and searching, compared with LangChain's EnsembleRetriever over rank_bm25 and Chroma.

    pip install 'hopgraph[dev]'
    python benchmarks/search.py DATA/hotpotqa [--queries 300]

The folder has `corpus.jsonl.gz` and `questions.jsonl.gz`. Queries are encoded beforehand: what is timed is searching.
All times and the memory are this machine's; the ratio of the two searches depends on it far less.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from scale import BRIDGE_SLOWEST, K, ensemble

from inference.encoders.configured import get_encoder
from stores.build import build_index
from stores.index import open_index
from stores.manifest import index_folder
from stores.passages import read_passages
from stores.vectors import KeptVectors, vector_key

NAME = "benchmark"
FASTER = 40
"""Goal: LangChain's time / ours."""


def main(
    data: Annotated[Path, typer.Argument(help="Folder of one data set.")],
    queries: Annotated[int, typer.Option(help="How many questions.")] = 300,
) -> None:
    """Print indexing speed, peak memory and search times; exit code 1 if the goal is missed."""
    corpus = data / "corpus.jsonl.gz"
    with gzip.open(data / "questions.jsonl.gz", "rt", encoding="utf-8") as lines:
        questions = [json.loads(line)["question"] for line in lines][:queries]
    print(f"{os.cpu_count()} cores; corpus {corpus.parent.name}, {len(questions)} questions, top {K}")

    built = build_index(NAME, read_passages(corpus))
    passages = built.manifest.passages
    how = f"{built.encoded:,} encoded" + (
        ", the others' vectors were kept from before" if built.encoded < passages else ""
    )
    print(f"index      {passages:,} passages in {built.seconds:,.0f} s ({passages / built.seconds:,.0f}/s; {how})")
    again = build_index(NAME, read_passages(corpus))
    print(f"           {again.seconds:,.1f} s of it without encoding; {built.size / 1e6:,.0f} MB on disk")
    print(f"           peak memory {_peak():,.0f} MB")

    index = open_index(NAME)
    vectors = get_encoder().encode_queries(questions)
    _timed("hybrid", lambda i: index.search_encoded(questions[i], vectors[i], K, "hybrid"), len(questions))
    bridge = _timed("bridge", lambda i: index.search_encoded(questions[i], vectors[i], K, "bridge"), len(questions))
    _timed("dense", lambda i: index.search_encoded(questions[i], vectors[i], K, "dense"), len(questions))
    _timed("sparse", lambda i: index.search_encoded(questions[i], None, K, "sparse"), len(questions))
    ours = _timed("hybrid", lambda i: index.search_encoded(questions[i], vectors[i], K, "hybrid"), len(questions))
    print(f"           bridge / hybrid {bridge / ours:.2f} (goal {BRIDGE_SLOWEST:.0f})")
    kept = KeptVectors(index_folder(NAME) / "vectors.sqlite")
    theirs = ensemble(
        (passage for chunk in index.passages() for passage in chunk),
        lambda texts: kept.get([vector_key(index.manifest.encoder, text) for text in texts]),
        questions,
        vectors,
    )
    if theirs is not None:
        print(f"{'LangChain':<10} p50 {theirs:8.2f} ms")
        print(f"ratio      {theirs / ours:,.0f} times faster at the median (goal {FASTER})")
    _timed("encoder", lambda i: get_encoder().encode_queries([questions[i]]), min(100, len(questions)))
    raise SystemExit(int(theirs is not None and theirs / ours < FASTER))


def _timed(name: str, call: Callable[[int], Any], count: int) -> float:
    """Print p50 and p95 in milliseconds; returns p50."""
    for i in range(min(10, count)):
        call(i)
    times = []
    for i in range(count):
        start = time.perf_counter()
        call(i)
        times.append(1e3 * (time.perf_counter() - start))
    p50, p95 = np.percentile(times, [50, 95])
    print(f"{name:<10} p50 {p50:8.2f} ms   p95 {p95:8.2f} ms", flush=True)
    return float(p50)


def _peak() -> float:
    """Largest resident memory of this process so far, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3


if __name__ == "__main__":
    typer.run(main)
