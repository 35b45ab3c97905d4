"""`make demo`: index the bundled corpus, answer one of its questions with every method, and ten with one.

CompactRAG answers from `pairs.jsonl`, pairs that a model extracted from 40 passages; `make demo-pairs` extracts them
again with the configured model.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rich.text import Text

from hopgraph import loop
from hopgraph.contexts import checked
from hopgraph.evaluation.metrics import exact_match
from hopgraph.methods import METHODS, context_class
from hopgraph.results import Result
from hopgraph.run import ask, make_context, new_thread
from hopgraph.views.console import unwrapped
from hopgraph.views.terminal import print_result
from hopgraph.views.texts import cut
from inference.settings import get_settings
from nodes.compactrag.context import ReaderContext
from nodes.kit.rendering import counted, plain

DATA = Path(__file__).parent / "data" / "demo"
INDEX = "demo"
QUESTION = "3e5d2fae0bd911eba7f7acde48001122"
"""Id of the question in `questions.jsonl`: two hops, a film, its director, his place of birth."""
PAIRS = DATA / "pairs.jsonl"
SHOWN = "parrag"
"""The method whose steps are shown."""
QUICKEST = "standard_rag"
"""The method that answers ten questions: one search and one call each."""
QUESTIONS = 10
SETTINGS = {"retriever": "bridge", "top_k": 3, "pool_size": 6}
"""Of every method that has them: two hops in one search, and few passages, since reading them takes a CPU's time."""
MAX_NAME = 60
"""Characters of a question or an answer in a list."""
MOST_READ = 40
"""Number of passages read for CompactRAG: gold passages of the first questions."""
READER = {"atomic_facts": False, "max_pairs": 10, "max_tokens": 1024}
"""Settings of the reader: small models generate slowly."""


def main() -> None:
    """Run the demo."""
    console = unwrapped()
    _index()
    _take_over_pairs()
    asked = _ten_questions()
    shown = _answered(SHOWN, asked[0])
    console.print()
    print_result(shown, INDEX, console)
    console.print(Text(f"\nThe same question, every method. The answer is {asked[0]['answers'][0]}.", style="bold"))
    results = []
    for method in METHODS:
        results.append(shown if method == SHOWN else _answered(method, asked[0]))
        console.print(_line(results[-1], asked[0], method))
    console.print(Text(f"\nTen questions, {QUICKEST}", style="bold"))
    for row in asked:
        results.append(_answered(QUICKEST, row))
        console.print(_line(results[-1], row, row["question"]))
    right = sum(_is_right(result, row) for result, row in zip(results[-len(asked) :], asked, strict=True))
    console.print(Text(f"{right} of {len(asked)} right", style="bold"))
    if get_settings().llm_url is None:
        console.print(
            "This was SmolLM2 (135M parameters, fine-tuned on these methods' roles) on this machine. A larger model:\n"
            "HOPGRAPH_LLM_URL=http://127.0.0.1:8000/v1 make demo   (vLLM or any other OpenAI-compatible endpoint)",
            style="dim",
            highlight=False,
        )
    # Unusable output of a small model is shown above; any other failure is an error.
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


def _ten_questions() -> list[dict[str, Any]]:
    """Every second question, so that all types are among them; the shown one is first."""
    return sorted(_questions(), key=_comes_first)[: 2 * QUESTIONS : 2]


def _answered(method: str, row: dict[str, Any]) -> Result:
    return loop.run(_ask(method, row["question"]))


async def _ask(method: str, question: str) -> Result:
    from stores.checkpoints import open_checkpoints

    known = context_class(method)
    settings: dict[str, Any] = {"index": INDEX} if known.searches else {}
    if known.searches and not known.knowledge_base:
        settings |= SETTINGS
    context = make_context(method, {name: value for name, value in settings.items() if name in known.model_fields})
    async with open_checkpoints() as saver:
        return await ask(question, context, saver, thread=new_thread(context))


def _is_right(result: Result, row: dict[str, Any]) -> bool:
    return exact_match(result["answer"], row["answers"]) == 1


def _line(result: Result, row: dict[str, Any], name: str) -> Text:
    """A result in one line: right or wrong, answer, and what it took."""
    cost = result["cost"]
    right = _is_right(result, row)
    answer = plain(result["answer"] or result["status"])
    gold = "" if right else f" (it is {row['answers'][0]})"
    took = f"  {counted(cost['calls'], 'call')}, {counted(cost['searches'], 'search')}, {cost['seconds']:.1f} s"
    return Text.assemble(
        ("✓ ", "green") if right else ("✗ ", "red"),
        f"{cut(name, MAX_NAME):<20} ",
        (cut(answer, MAX_NAME), "bold"),
        (gold + took, "dim"),
    )


if __name__ == "__main__":
    read_pairs() if sys.argv[1:] == ["read"] else main()
