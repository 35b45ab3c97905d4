"""Builds the compound-question benchmark: several questions about one entity, written by a model and merged (App. B.1).

python -m training.revelator.compound --data ../shared/data --to OUT             the training side's paragraphs
python -m training.revelator.compound --passages FILE... --to OUT                one's own

For an entity (a title) and each of up to ten passages that have it as title or mention it, a model writes one question
with its answer; for two to four of those it writes the question that asks for all. What fails a check is dropped and
counted.
The model is the endpoint of `HOPGRAPH_LLM_URL`, or the embedded one. All replies are kept in `OUT/replies.sqlite`:
started again with the same arguments, it continues.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from inference.errors import InputError
from stores.passages import Passage, read_passages
from training.command import guarded, parser
from training.measures import table
from training.revelator.compound.entities import entities_of, sampled, training_passages
from training.revelator.compound.writing import Built, build
from training.rows import dev_questions, write_rows


def report(built: Built) -> str:
    """Markdown: what was asked for and accepted, and what was rejected for which cause."""
    parts = Counter(str(row["hops"]) for rows in built.rows.values() for row in rows)
    lines: list[tuple[object, ...]] = [*built.counts.items()]
    lines += [(f"in {name}.jsonl", len(rows)) for name, rows in built.rows.items()]
    lines += [(f"of {number} parts", count) for number, count in sorted(parts.items())]
    causes = sorted((item for item in built.rejected.items() if item[1]), key=lambda item: (item[0][0], -item[1]))
    rejected = [(step, cause, count) for (step, cause), count in causes]
    return f"{table(['', ''], lines)}\n\n{table(['rejected', 'cause', ''], rejected, texts=2)}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; gives the exit code."""
    flags = parser("revelator.compound", "Build the compound-question benchmark.")
    flags.add_argument("--to", type=Path, required=True, help="folder to write; holds the replies, too")
    flags.add_argument("--data", type=Path, help="folder with train/ and the data sets; no dev question is made")
    flags.add_argument("--passages", type=Path, nargs="+", help="the corpus (default: the training data's paragraphs)")
    flags.add_argument("--entities", type=int, default=100, help="entities to ask about")
    flags.add_argument("--documents", type=int, default=10, help="passages of an entity")
    flags.add_argument("--merges", type=int, default=6, help="compound questions to ask for, an entity")
    flags.add_argument("--model", help="model name at the endpoint")
    flags.add_argument("--no-verify", action="store_true", help="do not have the parts answered from their passages")
    flags.add_argument("--seed", type=int, default=0)
    options = flags.parse_args(arguments)
    return guarded(lambda: _build(options))


def _build(options: Namespace) -> str:
    if options.passages:
        corpus: Iterable[Passage] = itertools.chain.from_iterable(map(read_passages, options.passages))
    elif options.data:
        corpus = training_passages(options.data)
    else:
        raise InputError("--passages or --data is missing", hint="give a corpus, or the data folder")
    entities = sampled(entities_of(corpus, options.documents), options.entities, options.seed)
    if not entities:
        raise InputError("no title has two passages", hint="passages need titles that other passages mention")
    options.to.mkdir(parents=True, exist_ok=True)
    built = asyncio.run(
        build(
            entities,
            options.to,
            dev=dev_questions(options.data) if options.data else (),
            model=options.model,
            merges=options.merges,
            verify=not options.no_verify,
            seed=options.seed,
            say=lambda line: sys.stderr.write(line + "\n"),
        )
    )
    known = sorted(built.passages.values(), key=lambda passage: passage.id)
    passages = [{"id": passage.id, "title": passage.title, "text": passage.text} for passage in known]
    for name, rows in built.rows.items():
        write_rows(options.to / f"{name}.jsonl", rows)
    write_rows(options.to / "passages.jsonl", passages)
    text = report(built)
    (options.to / "report.md").write_text(text, "utf-8")
    return text


if __name__ == "__main__":
    sys.exit(main())
