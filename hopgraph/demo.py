"""`make demo`: index the bundled corpus and answer one of its questions with every method.

CompactRAG answers from `pairs.jsonl`, pairs that a model extracted from 40 passages; `make demo-pairs` extracts them
again with the configured model.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from hopgraph import loop
from hopgraph.contexts import checked
from hopgraph.methods import METHODS, context_class
from hopgraph.results import Result
from hopgraph.run import ask, make_context, new_thread
from hopgraph.views.console import unwrapped
from hopgraph.views.terminal import print_result
from inference.settings import get_settings
from nodes.compactrag.context import ReaderContext

DATA = Path(__file__).parent / "data" / "demo"
INDEX = "demo"
QUESTION = "3e5d2fae0bd911eba7f7acde48001122"
"""Id of the question in `questions.jsonl`: two hops, a film, its director, his place of birth."""
PAIRS = DATA / "pairs.jsonl"
MOST_READ = 40
"""Number of passages read for CompactRAG: gold passages of the first questions."""
READER = {"atomic_facts": False, "max_pairs": 10, "max_tokens": 1024}
"""Settings of the reader: small models generate slowly."""


def main() -> None:
    """Run the demo."""
    console = unwrapped()
    _index()
    _take_over_pairs()
    question = _question()
    console.print(Text(f"\nQuestion: {question['question']}", style="bold"))
    console.print(Text(f"Gold answer: {' / '.join(question['answers'])}", style="dim"))
    results = []
    for method in METHODS:
        result = loop.run(_ask(method, question["question"]))
        print_result(result, INDEX, console)
        results.append(result)
    console.print(_table(results, question["answers"][0]))
    if get_settings().llm_url is None:
        console.print(
            "The embedded model (SmolLM2, 135M) shows that everything runs; it is too small to answer well.\n"
            "A better one in one line: HOPGRAPH_LLM_URL=http://127.0.0.1:8000/v1 make demo   (vLLM or any other), or\n"
            "HOPGRAPH_EMBEDDED_MODEL=FILE.gguf make demo",
            style="dim",
            highlight=False,
        )
    # Unusable output of a small model is expected, and shown above; any other failure is an error.
    if any(result["status"] == "failed" and result["error"]["kind"] != "model_output" for result in results):
        sys.exit(1)


def _index() -> None:
    """Index the bundled corpus; existing vectors are reused."""
    from hopgraph.cli.index import index

    index([DATA / "passages.jsonl"], name=INDEX, replace=True)


def _take_over_pairs() -> None:
    """Import the bundled knowledge base of the index; other readings are kept."""
    from hopgraph.cli.read import print_report
    from hopgraph.knowledge.pair_files import import_pairs
    from hopgraph.knowledge.report import report

    import_pairs(INDEX, PAIRS)
    print_report(report(INDEX))


def read_pairs() -> None:
    """Create the bundled knowledge base again (`make demo-pairs`)."""
    from hopgraph.cli.read import print_report
    from hopgraph.knowledge.pair_files import export_pairs
    from hopgraph.knowledge.reading import read_index

    _index()
    gold = dict.fromkeys(key for row in sorted(_questions(), key=_comes_first) for key in row["gold_ids"])
    context = checked(ReaderContext, {"index": INDEX, **READER})
    made = loop.run(read_index(context, ids=list(gold)[:MOST_READ], anew=True))
    export_pairs(INDEX, PAIRS)
    print_report(made)


def _questions() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / "questions.jsonl").read_text(encoding="utf-8").splitlines()]


def _comes_first(row: dict[str, Any]) -> bool:
    return bool(row["id"] != QUESTION)


def _question() -> dict[str, Any]:
    return next(row for row in _questions() if row["id"] == QUESTION)


async def _ask(method: str, question: str) -> Result:
    from stores.checkpoints import open_checkpoints

    context = make_context(method, {"index": INDEX} if context_class(method).searches else {})
    async with open_checkpoints() as saver:
        return await ask(question, context, saver, thread=new_thread(context))


def _table(results: list[Result], gold: str) -> Table:
    table = Table("method", "answer", "calls", "tokens in", "tokens out", "searches", "seconds", box=None)
    table.title = f"gold answer: {gold}"
    for result in results:
        cost = result["cost"]
        numbers = [cost["calls"], cost["prompt_tokens"], cost["completion_tokens"], cost["searches"]]
        answer = result["answer"] or result["status"]
        table.add_row(result["method"], Text(answer[:60]), *[f"{n:,}" for n in numbers], f"{cost['seconds']:.1f}")
    return table


if __name__ == "__main__":
    read_pairs() if sys.argv[1:] == ["read"] else main()
