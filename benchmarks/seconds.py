"""Seconds a question takes by every method with the embedded model, one question at a time.

    python benchmarks/seconds.py [--questions 5] [--method all]
    HOPGRAPH_EMBEDDED_LORA=none python benchmarks/seconds.py

The questions are the demo's, over its index, which `make demo` makes; every method has its defaults.
"""

from __future__ import annotations

from statistics import median
from typing import Annotated

import typer

from hopgraph import demo, loop
from hopgraph.evaluation.data import Question
from hopgraph.evaluation.datasets import read_questions
from hopgraph.evaluation.metrics import exact_match
from hopgraph.methods import METHODS, context_class
from hopgraph.results import Result
from hopgraph.run import ask, make_context, new_thread
from stores.checkpoints import open_checkpoints


def main(
    questions: Annotated[int, typer.Option(help="Number of questions.", min=1)] = 5,
    method: Annotated[str, typer.Option(help="Methods separated by commas, or all.")] = "all",
) -> None:
    """Print a row per method: median, least and most seconds, mean calls and tokens, and how many are right."""
    asked = read_questions(demo.DATA / "questions.jsonl", "2wikimultihopqa")[:questions]
    answered("standard_rag", asked[0])  # loads the model and opens the index
    print(f"{'method':<20}{'median':>8}{'least':>8}{'most':>8}{'calls':>8}{'tokens':>8}{'right':>8}")
    for name in METHODS if method == "all" else method.split(","):
        results = [answered(name, question) for question in asked]
        costs = [result["cost"] for result in results]
        seconds = [cost["seconds"] for cost in costs]
        calls = sum(cost["calls"] for cost in costs) / len(costs)
        tokens = sum(cost["prompt_tokens"] + cost["completion_tokens"] for cost in costs) / len(costs)
        right = sum(exact_match(result["answer"], one.answers) for result, one in zip(results, asked, strict=True))
        print(
            f"{name:<20}{median(seconds):>8.1f}{min(seconds):>8.1f}{max(seconds):>8.1f}{calls:>8.1f}{tokens:>8,.0f}"
            f"{right:>6.0f}/{len(asked)}",
            flush=True,
        )


def answered(method: str, question: Question) -> Result:
    """The question answered by the method, with its defaults."""

    async def run() -> Result:
        context = make_context(method, {"index": demo.INDEX} if context_class(method).searches else {})
        async with open_checkpoints() as saver:
            return await ask(question.question, context, saver, thread=new_thread(context))

    return loop.run(run())


if __name__ == "__main__":
    typer.run(main)
