"""Throughput of CompactRAG's reader relative to its endpoint's.

    hopgraph index DATA/2wikimultihopqa/corpus.jsonl.gz --name 2wiki
    python benchmarks/reader.py 2wiki DATA/2wikimultihopqa/questions.jsonl.gz --dataset 2wikimultihopqa

An index of its own is made of the first passages and read as `hopgraph read` reads it, by a simulated endpoint in
another process or by a real one (--url). Then a bare client sends the very same requests again. `bare` is its time
divided by ours; the goal is that of `saturation.py`.
"""

from __future__ import annotations

import os
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from saturation import LEAST
from sending import recording, send_again
from serving import ReplyTimes, forget, serving
from spent import by_thread, listed

from hopgraph import loop
from hopgraph.evaluation.data import sample
from hopgraph.evaluation.datasets import read_questions
from hopgraph.knowledge.reading import read_index
from hopgraph.run import make_context
from inference.settings import get_settings
from nodes.compactrag.context import ReaderContext
from stores.build import build_index
from stores.index import open_index

NAME = "reader"


def main(
    index: Annotated[str, typer.Argument(help="The index whose passages are read.")],
    questions: Annotated[Path, typer.Argument(help="Questions whose gold decompositions the simulation reads by.")],
    dataset: Annotated[str, typer.Option(help="Their dataset.")] = "own",
    passages: Annotated[int, typer.Option(help="How many passages.")] = 1000,
    latency: Annotated[float, typer.Option(help="Seconds of a simulated reply.")] = 1.0,
    slots: Annotated[int, typer.Option(help="Replies at a time.")] = 64,
    url: Annotated[str, typer.Option(help="A real endpoint instead of the simulation.")] = "",
    max_tokens: Annotated[int, typer.Option(help="Longest reply, of a real endpoint.")] = 128,
) -> None:
    """Print passages a second beside the bare client's time; exit code 1 if the goal is missed."""
    asked = sample(read_questions(questions, dataset), 200, seed=0)
    taken = list(islice((passage for chunk in open_index(index).passages() for passage in chunk), passages))
    times = ReplyTimes(latency)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {len(taken)} passages of {index}")
    print((url and f"{url}, {slots} at a time\n") or f"simulated: {times}, {slots} slots\n")
    with serving(asked, index, times, slots, url) as address, tempfile.TemporaryDirectory() as home:
        os.environ |= {"HOPGRAPH_LLM_URL": address, "HOPGRAPH_LLM_CONCURRENCY": str(slots), "HOPGRAPH_CACHE": "off"}
        os.environ["HOPGRAPH_HOME"] = home
        get_settings.cache_clear()
        build_index(NAME, taken)
        context = make_context("compactrag_reader", {"index": NAME, **({"max_tokens": max_tokens} if url else {})})
        assert isinstance(context, ReaderContext)
        loop.run(read_index(context, limit=2))
        forget(url)
        with recording() as sent, by_thread() as threads:
            started = time.perf_counter()
            made = loop.run(read_index(context))
            seconds = time.perf_counter() - started
        forget(url)
        bare = loop.run(send_again(address, sent, slots)) / seconds
    print(f"{'passages':>9}{'calls':>7}{'pairs':>7}{'failed':>8}{'CPU s':>8}{'ours s':>8}{'a second':>10}{'bare':>7}")
    count = made.now["passages"]
    rate, cpu = count / seconds, sum(threads.values())
    print(
        f"{count:>9,.0f}{len(sent):>7,}{made.pairs:>7,}{made.failed:>8}{cpu:>8.1f}{seconds:>8.1f}{rate:>10.1f}"
        f"{bare:>7.2f}{'   misses bare' if bare < LEAST else ''}"
    )
    print(f"ms of CPU a passage: {listed(threads, int(count))}")
    raise SystemExit(int(bare < LEAST))


if __name__ == "__main__":
    typer.run(main)
