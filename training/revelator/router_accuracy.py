"""The router's test of HANRAG, App. C: as many questions of each of the four kinds, by the encoder or by a model.

python -m training.revelator.router_accuracy --data ../shared/data              the encoder
python -m training.revelator.router_accuracy --data ../shared/data --model TO   a model, replies kept in TO

The model is the endpoint of `HOPGRAPH_LLM_URL`, or the embedded one.

None of its questions is trained on. Single-step and complex ones are dev questions of the data sets. For the other two
kinds the paper's test sets are not in the data folder: straightforward and compound ones are examples held out of the
training data (CommonsenseQA; questions merged by rule, and joined ones), which `divided` keeps apart by the question or
the entity.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from inference.errors import InputError
from inference.heads.revelator import ROUTES, route
from inference.structured import BadOutput, parse_output
from nodes.hanrag.routes import RouteChoice
from training.command import guarded, parser
from training.measures import confusion, shares_right, table
from training.revelator.chains import one_line
from training.revelator.chat import as_chat
from training.revelator.encoder_data import label_of
from training.revelator.evaluate import evaluate
from training.revelator.examples import Example
from training.revelator.sources import all_examples
from training.rows import rows_of, text_of

SETS: Mapping[str, tuple[str, ...]] = {
    "single-step": ("nq", "triviaqa", "popqa"),
    "complex": ("hotpotqa", "2wikimultihopqa", "musique"),
}
"""The data sets of the kinds that dev questions are of; the paper has SQuAD in the place of PopQA."""
PAPER = 0.8393
"""Accuracy of the paper's Revelator, 8B and fine-tuned, in a test of 1,500 questions of each kind."""


def router_test(data: Path, each: int) -> list[Example]:
    """Test questions: `each` of every kind, of each of its sources as many, or all that it has; chosen by hash.

    Raises:
        InputError: A file is missing or malformed, or there are fewer questions of a kind.
    """
    held = [example for example in all_examples(data)[1] if example.skill == "router"]
    found: list[Example] = []
    for kind in ("straightforward", "single-step", "compound", "complex"):
        sources = (
            [_dev(data, name, kind) for name in SETS[kind]]
            if kind in SETS
            else _by_source(example for example in held if example.target == kind)
        )
        rows = _balanced(sources, each)
        if len(rows) < each:
            raise InputError(f"{data}: {len(rows)} {kind} questions to test with", hint=f"--each {len(rows)}")
        found += rows
    return found


def report(rows: Sequence[Example], said: Sequence[int]) -> str:
    """Markdown: accuracy, which kind is taken for which, and the share that is right by source.

    Args:
        rows: The test questions.
        said: The route given to each, as its place in `ROUTES`; -1 if none can be read.
    """
    labels = [label_of(row) for row in rows]
    right = [one == other for one, other in zip(labels, said, strict=True)]
    matrix = confusion(labels, [one if one >= 0 else len(ROUTES) for one in said], len(ROUTES) + 1)
    lines: list[list[object]] = [
        [name, int(of.sum()), *of.tolist(), float(of[at] / max(of.sum(), 1))]
        for at, (name, of) in enumerate(zip(ROUTES, matrix[: len(ROUTES)], strict=True))
    ]
    kinds = table(["true", "questions", *(f"predicted {name}" for name in ROUTES), "unreadable", "right"], lines)
    groups = [(ROUTES[label], row.source) for label, row in zip(labels, rows, strict=True)]
    by_source = table(["kind", "source", "questions", "right"], shares_right(groups, right), texts=2)
    total = sum(right) / max(len(right), 1)
    described = f"{len(rows)} questions, accuracy {total:.3f} (the paper's Revelator in its own test: {PAPER:.3f})"
    return f"{described}\n\n{kinds}\n\n{by_source}\n"


def _dev(data: Path, name: str, kind: str) -> list[Example]:
    found = []
    for where, row in rows_of(data / name / "questions.jsonl.gz"):
        question = one_line(text_of(row, "question", where))
        found.append(Example("router", f"{name}, dev", question, question, kind))
    return found


def _by_source(rows: Iterable[Example]) -> list[list[Example]]:
    ordered = sorted(rows, key=lambda row: row.source)
    return [list(of) for _, of in itertools.groupby(ordered, key=lambda row: row.source)]


def _balanced(sources: Sequence[Sequence[Example]], most: int) -> list[Example]:
    """At most so many rows, an equal share of each source; what a small one lacks the others give."""
    kept: list[Example] = []
    for number, rows in enumerate(sorted(sources, key=len)):
        share = (most - len(kept)) // (len(sources) - number)
        kept += sorted(rows, key=lambda row: hashlib.sha256(row.question.encode()).hexdigest())[:share]
    return kept


def _test(options: Namespace) -> str:
    rows = router_test(options.data, options.each)
    if options.model:
        options.model.mkdir(parents=True, exist_ok=True)
        scored = asyncio.run(evaluate([as_chat(row) for row in rows], options.model))
        return report(rows, [_read(row["said"]) for row in scored])
    return report(rows, [ROUTES.index(found.route) for found in route([row.question for row in rows])])


def _read(reply: str) -> int:
    try:
        return ROUTES.index(parse_output(reply, RouteChoice).route)
    except BadOutput:
        return -1


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; gives the exit code."""
    flags = parser("revelator.router_accuracy", "Test the router as HANRAG's App. C does.")
    flags.add_argument("--data", type=Path, required=True, help="folder with train/ and the data sets")
    flags.add_argument("--each", type=int, default=350, help="questions of each kind")
    flags.add_argument(
        "--model", type=Path, metavar="TO", help="ask a model by its prompt; folder that keeps its replies"
    )
    options = flags.parse_args(arguments)
    return guarded(lambda: _test(options))


if __name__ == "__main__":
    sys.exit(main())
