"""Measures how often a model replies as a perfect agent does, role by role, on held-out examples: before and after
fine-tuning.

HOPGRAPH_EMBEDDED_LORA=none \
python -m training.agents.accuracy --examples OUT/heldout.jsonl --to BEFORE
HOPGRAPH_EMBEDDED_LORA=OUT/adapter.gguf \
python -m training.agents.accuracy --examples OUT/heldout.jsonl --to AFTER --before BEFORE

What is sent is what the graphs' nodes send, schema included. `TO` keeps all replies: an interrupted run continues when
it is started again. Give each model a folder of its own.
"""

from __future__ import annotations

import asyncio
import json
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hopgraph.evaluation.metrics import normalise, token_f1
from inference.chat import Schema
from inference.errors import InputError, did_you_mean
from training.command import guarded
from training.lora.chats import Chat, read_chats
from training.lora.replies import Said, compared, first, flags_of, grouped, replies_to, reported, said_to
from training.measures import table

REASONS = frozenset({"thought", "explanation", "reasoning", "analysis"})
"""Fields that say why. They are not compared: what a method does follows from the others."""


class Scored(Said):
    """A held-out example with what the model said, and its scores. A JSON object is readable."""

    exact: float
    """1 if all compared fields are the perfect agent's, texts by their words (SQuAD), else 0."""
    f1: float
    """Token F1 of the compared fields' texts."""


def score(chat: Chat, said: str) -> Scored:
    """Compare a reply with the example's."""
    gold, reply = reply_of(chat["completion"][0]["content"]), reply_of(said)
    exact = f1 = 0.0
    if reply is not None:
        meant, given = list(_decides(gold)), list(_decides(reply))
        exact = float(meant == given)
        words = [" ".join(value for *_, value in decided) for decided in (given, meant)]
        f1 = max(exact, token_f1(words[0], words[1:]))
    return Scored(**said_to(chat, said, reply is not None), exact=exact, f1=f1)


def reply_of(text: str) -> dict[str, Any] | None:
    """A reply's JSON object; None if it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _decides(value: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The compared values, each after its place, texts normalised."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name not in REASONS:
                yield from _decides(item, (*place, name))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _decides(item, (*place, str(position)))
    else:
        number = int(value) if isinstance(value, float) and value.is_integer() else value  # 1.0 is 1
        yield (*place, normalise(value) if isinstance(value, str) else json.dumps(number))


def report(rows: Sequence[Scored], before: Sequence[Scored] = ()) -> str:
    """Markdown: each role's accuracy, beside that of an earlier run if one is given, and by label and source.

    Raises:
        InputError: The earlier run is of other examples.
    """
    runs = compared(rows, before)
    heads = ["before", "after"] if before else [""]
    measures = [f"{name} {head}".rstrip() for head in heads for name in ("exact", "F1", "unreadable")]
    roles = [(role, of) for (role,), of in grouped(runs, lambda row: (row["skill"],))]
    lines = [[role, len(of[0]), *(cell for run in of for cell in _cells(run))] for role, of in [*roles, ("all", runs)]]
    details = [
        [*key, len(of[0]), *map(_exact, of)]
        for key, of in grouped(runs, lambda row: (row["skill"], row["label"], row["source"]))
    ]
    exact = [f"exact {head}".rstrip() for head in heads]
    whole = table(["role", "examples", *measures], lines)
    return f"{whole}\n\n{table(['role', 'label', 'source', 'examples', *exact], details, texts=3)}\n"


def _cells(rows: Sequence[Scored]) -> list[object]:
    return [_exact(rows), sum(row["f1"] for row in rows) / len(rows), sum(not row["readable"] for row in rows)]


def _exact(rows: Sequence[Scored]) -> float:
    return sum(row["exact"] for row in rows) / len(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; gives the exit code."""
    flags = flags_of("agents.accuracy", "Measure how often a model replies as a perfect agent.", "agents.build")
    flags.add_argument("--skill", nargs="+", metavar="METHOD/NODE", help="only these roles, such as hanrag/refiner")
    options = flags.parse_args(arguments)
    return guarded(lambda: _measure(options))


def _measure(options: Namespace) -> str:
    chats = read_sample(options.examples)
    there = sorted({chat["skill"] for chat in chats})
    check_skills("--skill", options.skill or (), there, options.examples)
    chats = first(chats, options.skill or there, options.limit)
    options.to.mkdir(parents=True, exist_ok=True)
    replies = asyncio.run(replies_to(chats, options.to, schema_of, model=options.model, max_tokens=options.max_tokens))
    rows = [score(chat, reply.text if reply else "") for chat, reply in zip(chats, replies, strict=True)]
    return reported(options, rows, report)


def read_sample(examples: Path) -> list[Chat]:
    """The examples of a file in the order of their ids. These are hashes: the first ones of a role are a sample of it.

    Raises:
        InputError: There are none, or the file is malformed.
    """
    chats = sorted(read_chats(examples), key=lambda chat: chat["id"])
    if not chats:
        raise InputError(f"{examples}: no examples", hint="python -m training.agents.build makes them")
    return chats


def check_skills(option: str, wanted: Sequence[str], there: Sequence[str], examples: Path) -> None:
    """Check that examples have the roles that an option names.

    Raises:
        InputError: One is not there.
    """
    for skill in wanted:
        if skill not in there:
            hint = f"{did_you_mean(skill, there)}there are {', '.join(there)}"
            raise InputError(f"{option}: {examples} has no examples of '{skill}'", hint=hint)


def schema_of(chat: Chat) -> Schema | None:
    """The JSON schema that the example's node asks; None: any text."""
    return Schema(chat["schema"]["name"], chat["schema"]["schema"]) if "schema" in chat else None


if __name__ == "__main__":
    sys.exit(main())
