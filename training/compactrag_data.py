"""Has a chat model write training data for CompactRAG's extractor and rewriter (Secs. 3.2.2 and 3.2.3).

python benchmarks/pooled.py TRAINING_QUESTIONS --dataset hotpotqa --to POOL
python -m training.compactrag_data --passages POOL/corpus.jsonl --to OUT
python -m training.extractor --data OUT --to extractor.npz

The passages are to be of training questions. The model is that of HOPGRAPH_LLM_URL. `OUT/train` gets the four files
that the trainers read; a passage's rows are all in the training files or all in the validation files.
`OUT/replies.sqlite` keeps the replies: an interrupted run continues when it is started again.
"""

from __future__ import annotations

import asyncio
import random
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

from inference.chat import Schema
from inference.endpoint import Endpoint
from inference.errors import InputError
from inference.structured import BadOutput, parse_output
from nodes.kit.model import open_endpoint, output_schema
from nodes.kit.rendering import passage_block
from prompts.parsing import parse_prompt, read_text
from stores.passages import Passage, read_passages
from stores.responses import Responses
from training.command import guarded, parser
from training.compactrag_rows import ExtractorExamples, RewriterExamples, extractor_rows, rewriter_rows
from training.measures import table
from training.rows import write_rows

Row = dict[str, Any]
WRITTEN: Mapping[str, tuple[type[ExtractorExamples | RewriterExamples], Callable[..., Iterator[Row | str]]]] = {
    "extractor": (ExtractorExamples, extractor_rows),
    "rewriter": (RewriterExamples, rewriter_rows),
}
"""For each model what is asked for, and what makes rows of it: a row, or why an example is left out."""
Say = Callable[[str], object]


async def write(
    passages: Sequence[Passage], to: Path, *, seed: int = 0, max_tokens: int = 1200, say: Say = lambda _: None
) -> dict[str, tuple[list[tuple[Passage, Row]], Counter[str]]]:
    """Ask for examples of each passage; gives each model's rows and the number of examples left out, by cause.

    Args:
        passages: What the examples are about.
        to: Folder that keeps the replies.
        seed: Decides the order of pairs and what is masked.
        max_tokens: Longest reply.
        say: Receives progress messages.

    Raises:
        EndpointError: The endpoint can't be used; what it said so far is kept.
    """
    endpoint = await open_endpoint(None)
    replies = await asyncio.to_thread(Responses, to / "replies.sqlite")
    done = 0

    async def one(name: str, passage: Passage) -> list[Row | str]:
        nonlocal done
        output, rows = WRITTEN[name]
        text = await _ask(endpoint, replies, name, passage, max_tokens)
        done += 1
        if done % 50 == 0:
            say(f"{done} of {len(WRITTEN) * len(passages)} replies")
        try:
            examples = parse_output(text, output).examples
        except BadOutput:
            return ["unreadable replies"]
        return list(rows(examples, passage.id, random.Random(f"{seed} {passage.id}")))  # noqa: S311

    result = {}
    for name in WRITTEN:  # one after the other, so that the server keeps the prompt's beginning
        written = await asyncio.gather(*(one(name, passage) for passage in passages))
        kept = [
            (passage, row)
            for passage, rows in zip(passages, written, strict=True)
            for row in rows
            if not isinstance(row, str)
        ]
        result[name] = kept, Counter(row for rows in written for row in rows if isinstance(row, str))
    return result


async def _ask(endpoint: Endpoint, replies: Responses, name: str, passage: Passage, max_tokens: int) -> str:
    path = Path(__file__).parent / "prompts" / f"{name}.md"
    reply = await endpoint.complete(
        parse_prompt(name, path, read_text(path)).render({"passage": passage_block(1, passage)}),
        request_id=f"training.compactrag.{name}.{passage.id}",
        schema=Schema(f"training__{name}", output_schema(WRITTEN[name][0])),
        max_tokens=max_tokens,
        seed=0,
        cache=replies,
    )
    return reply.text


def held_out(passage: Passage, percent: int) -> bool:
    """Whether a passage's rows are for validation, by the hash of its id."""
    return crc32(passage.id.encode()) % 100 < percent


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit code."""
    flags = parser("compactrag_data", "Have a chat model write the extractor's and the rewriter's training data.")
    flags.add_argument("--passages", type=Path, required=True, help="JSON Lines with title and text")
    flags.add_argument("--to", type=Path, required=True, help="folder to write")
    flags.add_argument("--limit", type=int, help="passages at most, a random sample")
    flags.add_argument("--held-out", type=int, default=10, metavar="PERCENT", help="share of passages for validation")
    flags.add_argument("--seed", type=int, default=0, help="of the sample, the pairs' order and what is masked")
    flags.add_argument("--max-tokens", type=int, default=1200, help="longest reply")
    options = flags.parse_args(arguments)
    return guarded(lambda: _build(options))


def _build(options: Namespace) -> str:
    passages = [passage for passage in read_passages(options.passages) if passage.text.strip()]
    if not passages:
        raise InputError(f"{options.passages}: no passages", hint="one JSON object a line, with title and text")
    if options.limit is not None and options.limit < len(passages):
        passages = random.Random(options.seed).sample(passages, options.limit)  # noqa: S311
    (options.to / "train").mkdir(parents=True, exist_ok=True)
    written = asyncio.run(
        write(
            passages,
            options.to,
            seed=options.seed,
            max_tokens=options.max_tokens,
            say=lambda line: sys.stderr.write(line + "\n"),
        )
    )
    lines: list[list[object]] = []
    for name, (rows, left_out) in written.items():
        split = {"train": _of(rows, options, False), "valid": _of(rows, options, True)}
        for part, chosen in split.items():
            write_rows(options.to / "train" / f"{name}.{part}.jsonl.gz", chosen)
        gone = ", ".join(f"{count} {why}" for why, count in sorted(left_out.items())) or "none"
        lines.append([name, len(split["train"]), len(split["valid"]), gone])
    return f"{table(['data of the', 'training rows', 'validation rows', 'left out'], lines)}\n"


def _of(rows: Iterable[tuple[Passage, Row]], options: Namespace, valid: bool) -> list[Row]:
    return [row for passage, row in rows if held_out(passage, options.held_out) == valid]


if __name__ == "__main__":
    sys.exit(main())
