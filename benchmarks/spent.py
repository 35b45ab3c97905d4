"""Where the event loop's thread spends its CPU time, by whose code it is: what `overhead.py` measures, profiled.

    python benchmarks/spent.py react DATA/2wikimultihopqa/questions.jsonl.gz --dataset 2wikimultihopqa --index 2wiki

cProfile by the thread's own clock, so that waiting costs nothing. It makes small functions look dearer than they are.
What is built in counts for whoever called it, apart from SQLite and the packing of checkpoints.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from overhead import kept
from serving import ReplyTimes, serving

from hopgraph import loop
from hopgraph.evaluation.data import read_questions, sample
from hopgraph.run import make_context
from inference.settings import get_settings

HOUSE = Path(__file__).parents[1]
OWNERS = {
    "SQLite": ("sqlite3", "checkpoint/sqlite", "stores/saver", "stores/checkpoints"),
    "packing checkpoints": ("zlib", "msgpack", "/serde/"),
    "LangGraph": ("/langgraph/",),
    "langchain-core": ("/langchain_core/", "/langsmith/"),
    "aiohttp": ("/aiohttp/", "/yarl/", "/multidict/"),
    "event loop": ("/asyncio/", "/uvloop/", "/concurrent/futures/", "Context", "_asyncio"),
    "JSON": ("/json/", "_json"),
    "our nodes": tuple(f"{HOUSE}/{room}/" for room in ("nodes", "graphs", "prompts")),
    "the benchmark": (f"{HOUSE}/benchmarks/",),
    "the rest of ours": (f"{HOUSE}/",),
}
"""The first one counts of which a part is in a function's file or name."""
OTHERS = "Python's library"


def main(
    method: Annotated[str, typer.Argument(help="The method.")],
    questions: Annotated[Path, typer.Argument(help="Questions with gold decompositions.")],
    dataset: Annotated[str, typer.Option(help="Their dataset.")] = "own",
    index: Annotated[str, typer.Option(help="Index to search.")] = "",
    limit: Annotated[int, typer.Option(help="How many questions.")] = 60,
) -> None:
    """Print the shares, the largest first."""
    asked = sample(read_questions(questions, dataset), limit, seed=0)
    with serving(asked, index, ReplyTimes(0.0), 64) as url:
        os.environ |= {"HOPGRAPH_LLM_URL": url, "HOPGRAPH_LLM_CONCURRENCY": "64", "HOPGRAPH_CACHE": "off"}
        get_settings.cache_clear()
        context = make_context(method, {"index": index} if index else {})
        loop.run(kept(context, asked[:2]))
        profile = cProfile.Profile(time.thread_time)
        profile.enable()
        loop.run(kept(context, asked))
        profile.disable()
    spent: Counter[str] = Counter()
    stats: dict[Any, Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    for function, (_, _, own, _, callers) in stats.items():
        if function[0] == "~" and owner(function) == OTHERS:
            for caller, (_, _, share, _) in callers.items():
                spent[owner(caller)] += share
        else:
            spent[owner(function)] += own
    del spent["the benchmark"]
    total = sum(spent.values())
    print(f"{method}: {1e3 * total / len(asked):.1f} ms a question in the event loop's thread, under the profiler")
    for name, seconds in spent.most_common():
        print(f"{name:<20}{seconds / total:>6.0%}")


def owner(function: tuple[str, int, str]) -> str:
    """Whose function it is, given file, line and name."""
    place = f"{function[0]} {function[2]}"
    return next((name for name, parts in OWNERS.items() if any(part in place for part in parts)), OTHERS)


if __name__ == "__main__":
    typer.run(main)
