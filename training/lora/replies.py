"""A model's replies to held-out examples, through an endpoint: what evaluations of fine-tuning share."""

from __future__ import annotations

import argparse
import asyncio
import sys
from argparse import Namespace
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from typing_extensions import TypedDict

from inference.chat import Reply, Schema
from inference.errors import InputError, PromptTooLong
from nodes.kit.model import open_endpoint
from stores.responses import Responses
from training.command import parser
from training.lora.chats import Chat, messages_of
from training.rows import rows_of, write_rows

Row = TypeVar("Row", bound=Mapping[str, Any])
Key = TypeVar("Key", bound=tuple[Any, ...])
TOLD = 25
"""Replies between two lines of progress."""


class Said(TypedDict):
    """A held-out example with what the model said."""

    id: str
    skill: str
    label: str
    source: str
    said: str
    """The reply, as it came."""
    readable: bool


def said_to(chat: Chat, text: str, readable: bool) -> Said:
    """A reply to an example; `readable` if it has the form that was asked for."""
    source = str(chat.get("source", ""))
    return Said(id=chat["id"], skill=chat["skill"], label=chat["label"], source=source, said=text, readable=readable)


async def replies_to(
    chats: Sequence[Chat],
    folder: Path,
    schema_of: Callable[[Chat], Schema | None],
    *,
    model: str | None = None,
    max_tokens: int = 256,
    alternatives: Callable[[Chat], int | None] = lambda _: None,
) -> list[Reply | None]:
    """Ask for each example; None where the prompt does not fit the model's context. Progress goes to stderr.

    Args:
        chats: Examples. Those of one skill should follow each other: the server keeps their common beginning.
        folder: Keeps the replies in `replies.sqlite`.
        schema_of: The JSON schema of a reply; None: any text.
        model: Model name at the endpoint.
        max_tokens: Longest reply.
        alternatives: Log-probabilities wanted of each token; None: of none.

    Raises:
        EndpointError: The endpoint can't be used; what it said so far is kept.
    """
    endpoint = await open_endpoint(model)
    cache = await asyncio.to_thread(Responses, folder / "replies.sqlite")
    done = 0

    async def one(chat: Chat) -> Reply | None:
        nonlocal done
        try:
            reply = await endpoint.complete(
                messages_of(chat),
                request_id=f"evaluate.{chat['skill']}.{chat['id']}",
                schema=schema_of(chat),
                max_tokens=max_tokens,
                seed=0,
                top_logprobs=alternatives(chat),
                cache=cache,
            )
        except PromptTooLong:
            reply = None
        done += 1
        if done % TOLD == 0:
            sys.stderr.write(f"{done} of {len(chats)}\n")
        return reply

    return list(await asyncio.gather(*map(one, chats)))


def flags_of(module: str, description: str, built_by: str) -> argparse.ArgumentParser:
    """A parser with the options of an evaluation.

    Args:
        module: In `training`.
        description: For `--help`.
        built_by: Module that builds the examples.
    """
    flags = parser(module, description)
    flags.add_argument("--examples", type=Path, required=True, help=f"heldout.jsonl of training.{built_by}")
    flags.add_argument("--to", type=Path, required=True, help="folder for replies, results and the report")
    flags.add_argument("--before", type=Path, help="folder of an earlier evaluation, to be shown beside this one")
    flags.add_argument("--model", help="model name at the endpoint")
    flags.add_argument("--limit", type=int, help="examples of a skill at most")
    flags.add_argument("--max-tokens", type=int, default=256, help="longest reply")
    return flags


def first(chats: Sequence[Chat], skills: Sequence[str], limit: int | None) -> list[Chat]:
    """The first `limit` examples of each of the skills, one skill after the other; None: all of them."""
    of: dict[str, list[Chat]] = defaultdict(list)
    for chat in chats:
        of[chat["skill"]].append(chat)
    return [chat for skill in skills for chat in of[skill][:limit]]


def compared(rows: Sequence[Row], before: Sequence[Row]) -> list[Sequence[Row]]:
    """An earlier run, if there is one, and this.

    Raises:
        InputError: The earlier run is of other examples.
    """
    if before and {row["id"] for row in before} != {row["id"] for row in rows}:
        raise InputError("--before: that run is of other examples", hint="evaluate both on the same file")
    return [before, rows] if before else [rows]


def grouped(runs: Sequence[Sequence[Row]], key: Callable[[Row], Key]) -> list[tuple[Key, Sequence[Sequence[Row]]]]:
    """The rows of each run by key, in order of the keys."""
    found: dict[Key, list[list[Row]]] = defaultdict(lambda: [[] for _ in runs])
    for number, run in enumerate(runs):
        for row in run:
            found[key(row)][number].append(row)
    return sorted(found.items(), key=lambda item: item[0])


def reported(options: Namespace, rows: Sequence[Row], report: Callable[[Sequence[Row], Sequence[Row]], str]) -> str:
    """Write `results.jsonl` and `report.md`; gives the report.

    Args:
        options: Of `flags_of`.
        rows: The results.
        report: Makes the report of these results and of earlier ones, of which there may be none.

    Raises:
        InputError: The earlier results are missing, damaged, or of other examples.
    """
    before: list[Any] = [row for _, row in rows_of(options.before / "results.jsonl")] if options.before else []
    text = report(rows, before)
    write_rows(options.to / "results.jsonl", rows)
    (options.to / "report.md").write_text(text, "utf-8")
    return text
