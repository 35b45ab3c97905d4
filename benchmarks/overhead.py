"""Overhead of Hopgraph's process: CPU time per model call and superstep, with and without checkpoints, and their size.

    hopgraph index DATA/2wikimultihopqa/corpus.jsonl.gz --name 2wiki
    python benchmarks/overhead.py DATA/2wikimultihopqa/questions.jsonl.gz --dataset 2wikimultihopqa --index 2wiki

Perfect agents in another process answer at once. Each method's questions are run twice in turn, with checkpoints in
SQLite as `hopgraph ask` and `eval` write them, and with none. CPU time is that of this process with all its threads.
What searches take (encoding the query, Chroma with the threads that it has of its own, BM25) is in a column of its own
and not in the others: the same searches are made again, one after another, with stems known by then. `KiB` is the
growth of the checkpoint file a question, `a call` that of the shortest and the longest third of the questions divided
by their calls: equal numbers mean that it grows with the calls.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from serving import ReplyTimes, cpu_seconds, serving

from hopgraph import loop
from hopgraph.evaluation.data import Question, sample
from hopgraph.evaluation.datasets import read_questions
from hopgraph.methods import METHODS, load
from hopgraph.run import ask, make_context, new_thread
from inference.errors import HopgraphError
from inference.settings import get_settings
from nodes.kit.context import Context
from stores.checkpoints import open_checkpoints
from stores.index import Index
from stores.pairs import Pairs

CALL, QUESTION = 5.0, 256.0
"""Goals: maximum mean CPU milliseconds per call, and KiB of checkpoints per question."""
TOGETHER = 32
"""Concurrent questions."""


def main(
    questions: Annotated[Path, typer.Argument(help="Questions with gold decompositions.")],
    dataset: Annotated[str, typer.Option(help="Their dataset.")] = "own",
    index: Annotated[str, typer.Option(help="Index to search.")] = "",
    method: Annotated[str, typer.Option(help="Methods, with commas between them. Default: all.")] = "",
    limit: Annotated[int, typer.Option(help="How many questions.")] = 60,
) -> None:
    """Print the costs of each method; exit code 1 if a goal is missed."""
    asked = sample(read_questions(questions, dataset), limit, seed=0)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {len(asked)} questions of {dataset}, {index}\n")
    print(f"{'':<14}{'':>7}{'':>7}{'search':>8}{'ms of CPU a call':>19}{'a superstep':>13}{'KiB a':>10}{'a call':>15}")
    print(
        f"{'method':<14}{'calls':>7}{'steps':>7}{'ms':>8}{'kept':>11}{'not':>8}{'kept':>13}{'question':>10}{'short':>8}{'long':>7}"
    )
    missed = False
    with serving(asked, index, ReplyTimes(0.0), 64) as url:
        os.environ |= {"HOPGRAPH_LLM_URL": url, "HOPGRAPH_LLM_CONCURRENCY": "64", "HOPGRAPH_CACHE": "off"}
        get_settings.cache_clear()
        for name in method.split(",") if method else METHODS:
            context = make_context(name, {"index": index} if index else {})
            try:
                loop.run(kept(context, asked[:2]))
                loop.run(not_kept(context, asked[:2]))
                with searches() as searching:
                    rows, with_checkpoints = loop.run(kept(context, asked))
                count, search = len(searching), made_again(searching)
                with_checkpoints -= search
                with searches() as searching:
                    started = cpu_seconds()
                    loop.run(not_kept(context, asked))
                    without = cpu_seconds() - started
                without -= made_again(searching)
            except HopgraphError as error:
                print(f"{name:<14} not measured: {error.message}")
                continue
            calls, steps = sum(row["calls"] for row in rows), sum(row["supersteps"] for row in rows)
            size = sum(row["bytes"] for row in rows) / len(rows) / 1024
            rows.sort(key=lambda row: row["calls"])
            third = len(rows) // 3
            short, long = (
                sum(row["bytes"] for row in part) / sum(row["calls"] for row in part) / 1024
                for part in (rows[:third], rows[-third:])
            )
            a_call = 1e3 * with_checkpoints / calls
            wrong = ["CPU"] if a_call > CALL else []
            wrong += ["KiB"] if size > QUESTION else []
            print(
                f"{name:<14}{calls / len(rows):>7.1f}{steps / len(rows):>7.1f}{1e3 * search / max(count, 1):>8.1f}"
                f"{a_call:>11.1f}{1e3 * without / calls:>8.1f}{1e3 * with_checkpoints / steps:>13.1f}"
                f"{size:>10.0f}{short:>8.1f}{long:>7.1f}{'   misses ' + ', '.join(wrong) if wrong else ''}",
                flush=True,
            )
            missed |= bool(wrong)
    raise SystemExit(int(missed))


async def kept(context: Context, questions: Sequence[Question]) -> tuple[list[dict[str, int]], float]:
    """Run the questions as `hopgraph ask` does; returns calls, supersteps and checkpoint bytes of each, and CPU s."""
    rows = []
    with tempfile.TemporaryDirectory() as place:
        async with open_checkpoints(str(Path(place) / "checkpoints.sqlite")) as saver:
            threads = [new_thread(context) for _ in questions]
            pending = asyncio.Semaphore(TOGETHER)

            async def one(question: Question, thread: str) -> Any:
                async with pending:
                    return await ask(question.question, context, saver, thread=thread)

            started = cpu_seconds()
            results = await asyncio.gather(*map(one, questions, threads))
            spent = cpu_seconds() - started
            database = saver.conn  # type: ignore[attr-defined]
            pages = sum(size for (size,) in database.execute("SELECT pgsize FROM dbstat"))
            stored: dict[str, int] = {}
            supersteps: dict[str, int] = {}
            for table, columns in (("checkpoints", "checkpoint, metadata"), ("writes", "value, channel")):
                lengths = " + ".join(f"length({column})" for column in columns.split(", "))
                for thread, size in database.execute(
                    f"SELECT thread_id, SUM({lengths} + 150) FROM {table} GROUP BY thread_id"
                ):
                    stored[thread] = stored.get(thread, 0) + size
            for thread, count in database.execute("SELECT thread_id, COUNT(*) FROM checkpoints GROUP BY thread_id"):
                supersteps[thread] = count
            # The file's size is allotted to threads by their bytes.
            scale = pages / sum(stored.values())
            for thread, result in zip(threads, results, strict=True):
                size = int(stored[thread] * scale)
                rows.append({"calls": result["cost"]["calls"], "supersteps": supersteps[thread], "bytes": size})
    return rows, spent


async def not_kept(context: Context, questions: Sequence[Question]) -> None:
    """Run the questions on the bare graph, without checkpoints."""
    graph = load(context.method)
    pending = asyncio.Semaphore(TOGETHER)

    async def one(question: Question) -> None:
        async with pending:
            await graph.ainvoke({"question": question.question}, context=context)

    await asyncio.gather(*map(one, questions))


@contextmanager
def searches() -> Iterator[list[Callable[[], Any]]]:
    """Record the searches of passages or pairs within the context, for replay."""
    made: list[Callable[[], Any]] = []

    def noted(search: Callable[..., Any]) -> Callable[..., Any]:
        def searching(*args: Any, **options: Any) -> Any:
            made.append(partial(search, *args, **options))
            return search(*args, **options)

        return searching

    passages, pairs = Index.search_many, Pairs.search_many
    Index.search_many = noted(passages)  # type: ignore[method-assign]
    Pairs.search_many = noted(pairs)  # type: ignore[method-assign]
    try:
        yield made
    finally:
        Index.search_many, Pairs.search_many = passages, pairs  # type: ignore[method-assign]


def made_again(calls: Sequence[Callable[[], Any]]) -> float:
    """CPU seconds of replaying searches sequentially."""
    started = cpu_seconds()
    for call in calls:
        call()
    return cpu_seconds() - started


if __name__ == "__main__":
    typer.run(main)
