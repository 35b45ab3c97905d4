"""Breakdown of the CPU time that `overhead.py` measures: by thread, and by package in the event loop's thread.

    python benchmarks/spent.py react DATA/2wikimultihopqa/questions.jsonl.gz --dataset 2wikimultihopqa --index 2wiki

What is handed to other threads is timed by their own clocks, and named for the module that has the function. The event
loop's thread is then profiled, in a run of its own, by cProfile and by that thread's clock, so that waiting costs
nothing; small functions look dearer than they are. What is built in counts for whoever called it, apart from SQLite and
the packing of checkpoints.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from overhead import kept
from serving import ReplyTimes, cpu_seconds, serving

from hopgraph import loop
from hopgraph.evaluation.data import sample
from hopgraph.evaluation.datasets import read_questions
from hopgraph.run import make_context
from inference.settings import get_settings

PROJECT = Path(__file__).parents[1]
OWNERS = {
    "SQLite": ("sqlite3", "checkpoint/sqlite", "stores/saver", "stores/checkpoints"),
    "packing checkpoints": ("zlib", "msgpack", "/serde/"),
    "LangGraph": ("/langgraph/",),
    "langchain-core": ("/langchain_core/", "/langsmith/"),
    "aiohttp": ("/aiohttp/", "/yarl/", "/multidict/"),
    "event loop": ("/asyncio/", "/uvloop/", "/concurrent/futures/", "Context", "_asyncio"),
    "JSON": ("/json/", "_json"),
    "our nodes": tuple(f"{PROJECT}/{folder}/" for folder in ("nodes", "graphs", "prompts")),
    "the benchmark": (f"{PROJECT}/benchmarks/",),
    "the rest of ours": (f"{PROJECT}/",),
}
"""Owners by substrings of a function's file or name; the first match counts."""
OTHERS = "Python's library"
LOOP = "the event loop's thread"
LIBRARIES = "threads of libraries"


def main(
    method: Annotated[str, typer.Argument(help="The method.")],
    questions: Annotated[Path, typer.Argument(help="Questions with gold decompositions.")],
    dataset: Annotated[str, typer.Option(help="Their dataset.")] = "own",
    index: Annotated[str, typer.Option(help="Index to search.")] = "",
    limit: Annotated[int, typer.Option(help="How many questions.")] = 60,
) -> None:
    """Print the times and the shares, the largest first."""
    asked = sample(read_questions(questions, dataset), limit, seed=0)
    with serving(asked, index, ReplyTimes(0.0), 64) as url:
        os.environ |= {"HOPGRAPH_LLM_URL": url, "HOPGRAPH_LLM_CONCURRENCY": "64", "HOPGRAPH_CACHE": "off"}
        get_settings.cache_clear()
        context = make_context(method, {"index": index} if index else {})
        loop.run(kept(context, asked[:2]))
        with by_thread() as threads:
            loop.run(kept(context, asked))
        profile = cProfile.Profile(time.thread_time)
        profile.enable()
        loop.run(kept(context, asked))
        profile.disable()
    print(f"{method}, {len(asked)} questions: {1e3 * sum(threads.values()) / len(asked):.1f} ms of CPU a question")
    print(listed(threads, len(asked)))
    spent: Counter[str] = Counter()
    stats: dict[Any, Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    for function, (_, _, own, _, callers) in stats.items():
        if function[0] == "~" and owner(function) == OTHERS:
            for caller, (_, _, share, _) in callers.items():
                spent[owner(caller)] += share
        else:
            spent[owner(function)] += own
    del spent["the benchmark"]
    print(f"{LOOP}, under the profiler:")
    print(", ".join(f"{name} {seconds / spent.total():.0%}" for name, seconds in spent.most_common()))


@contextmanager
def by_thread() -> Iterator[dict[str, float]]:
    """CPU seconds within the context: of this thread, of calls in executors, of libraries' own threads."""
    spent: dict[str, float] = defaultdict(float)
    submit = ThreadPoolExecutor.submit

    def submitted(pool: ThreadPoolExecutor, call: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        name = module_of(partial(call, *args))

        def timed() -> Any:
            started = time.thread_time()
            try:
                return call(*args, **options)
            finally:
                spent[name] += time.thread_time() - started

        return submit(pool, timed)

    ThreadPoolExecutor.submit = submitted  # type: ignore[method-assign, assignment]
    started, own = cpu_seconds(), time.thread_time()
    try:
        yield spent
    finally:
        ThreadPoolExecutor.submit = submit  # type: ignore[method-assign]
        spent[LOOP] = time.thread_time() - own
        spent[LIBRARIES] = max(0.0, cpu_seconds() - started - sum(spent.values()))


def module_of(call: Any) -> str:
    """Module of the called function; `asyncio.to_thread` wraps it in a context's `run`."""
    while isinstance(call, partial):
        call = call.args[0] if getattr(call.func, "__name__", "") == "run" and call.args else call.func
    return str(getattr(call, "__module__", "") or OTHERS)


def listed(threads: Mapping[str, float], count: int) -> str:
    """Mean milliseconds per item, largest first, in a line."""
    found = [(name, 1e3 * seconds / count) for name, seconds in sorted(threads.items(), key=lambda row: -row[1])]
    return ", ".join(f"{name} {ms:.1f}" for name, ms in found if ms >= 0.05)


def owner(function: tuple[str, int, str]) -> str:
    """Owner of a function, given file, line and name."""
    place = f"{function[0]} {function[2]}"
    return next((name for name, parts in OWNERS.items() if any(part in place for part in parts)), OTHERS)


if __name__ == "__main__":
    typer.run(main)
