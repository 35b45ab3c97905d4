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
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from typing_extensions import TypedDict

from hopgraph.evaluation.metrics import normalise, token_f1
from inference.chat import Schema
from inference.errors import InputError, did_you_mean
from training.command import guarded
from training.lora.chats import Chat, read_chats
from training.lora.replies import compared, first, flags_of, replies_to, reported, told
from training.measures import table

REASONS = frozenset({"thought", "explanation", "reasoning", "analysis"})
"""Fields that say why. They are not compared: what a method does follows from the others."""
_Key = tuple[str, ...]


class Scored(TypedDict):
    """A held-out example with what the model said."""

    id: str
    skill: str
    label: str
    source: str
    said: str
    """The reply, as it came."""
    readable: bool
    """Whether it is a JSON object."""
    exact: float
    """1 if all compared fields are the perfect agent's, texts by their words (SQuAD), else 0."""
    f1: float
    """Token F1 of the compared fields' texts."""


def score(chat: Chat, said: str) -> Scored:
    """Compare a reply with the example's."""
    gold, reply = _object(chat["completion"][0]["content"]), _object(said)
    exact = f1 = 0.0
    if reply is not None:
        meant, given = list(_decides(gold)), list(_decides(reply))
        exact = float(meant == given)
        f1 = max(exact, token_f1(" ".join(map(_last, given)), [" ".join(map(_last, meant))]))
    return Scored(
        id=chat["id"],
        skill=chat["skill"],
        label=chat["label"],
        source=str(chat.get("source", "")),
        said=said,
        readable=reply is not None,
        exact=exact,
        f1=f1,
    )


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _decides(value: Any, place: _Key = ()) -> Iterator[_Key]:
    """The compared values, each after its place, texts normalised."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name not in REASONS:
                yield from _decides(item, (*place, name))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _decides(item, (*place, str(position)))
    else:
        number = float(value) if type(value) is int else value  # 1 is 1.0
        yield (*place, normalise(value) if isinstance(value, str) else json.dumps(number))


def _last(place: _Key) -> str:
    return place[-1]


def report(rows: Sequence[Scored], before: Sequence[Scored] = ()) -> str:
    """Markdown: each role's accuracy, beside that of an earlier run if one is given, and by label and source.

    Raises:
        InputError: The earlier run is of other examples.
    """
    runs = compared(rows, before)
    heads = ["before", "after"] if before else [""]
    measures = [f"{name} {head}".rstrip() for head in heads for name in ("exact", "F1", "unreadable")]
    roles = _grouped(runs, lambda row: (row["skill"],))
    roles[("all",)] = [list(run) for run in runs]
    lines = [[*key, len(of[0]), *(cell for run in of for cell in _cells(run))] for key, of in roles.items()]
    details = [
        [*key, len(of[0]), *map(_exact, of)]
        for key, of in _grouped(runs, lambda row: (row["skill"], row["label"], row["source"])).items()
    ]
    exact = [f"exact {head}".rstrip() for head in heads]
    whole = table(["role", "examples", *measures], lines)
    return f"{whole}\n\n{table(['role', 'label', 'source', 'examples', *exact], details, texts=3)}\n"


def _grouped(runs: Sequence[Sequence[Scored]], key: Callable[[Scored], _Key]) -> dict[_Key, list[list[Scored]]]:
    """Rows of each run by key, in order."""
    found: dict[_Key, list[list[Scored]]] = defaultdict(lambda: [[] for _ in runs])
    for number, run in enumerate(runs):
        for row in run:
            found[key(row)][number].append(row)
    return dict(sorted(found.items()))


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
    # Ids are hashes: those of a limit are a sample of the role's examples.
    chats = sorted(read_chats(options.examples), key=lambda chat: chat["id"])
    if not chats:
        raise InputError(f"{options.examples}: no examples", hint="python -m training.agents.build makes them")
    there = sorted({chat["skill"] for chat in chats})
    for skill in options.skill or ():
        if skill not in there:
            hint = f"{did_you_mean(skill, there)}there are {', '.join(there)}"
            raise InputError(f"--skill: {options.examples} has no examples of '{skill}'", hint=hint)
    chats = first(chats, options.skill or there, options.limit)
    options.to.mkdir(parents=True, exist_ok=True)
    replies = asyncio.run(
        replies_to(chats, options.to, _schema_of, model=options.model, max_tokens=options.max_tokens, say=told)
    )
    rows = [score(chat, reply.text if reply else "") for chat, reply in zip(chats, replies, strict=True)]
    return reported(options, rows, report)


def _schema_of(chat: Chat) -> Schema | None:
    return Schema(chat["schema"]["name"], chat["schema"]["schema"]) if "schema" in chat else None


if __name__ == "__main__":
    sys.exit(main())
