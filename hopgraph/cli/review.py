"""Human decisions at the command line: prompted at a terminal, or given with `hopgraph resume --decision`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import Any

from hopgraph.results import Waiting
from inference.errors import InputError
from nodes.kit.rendering import plain

_FIRST = ("problem", "question", "chain", "answer", "verdict", "evidence")
"""Fields shown to the person, in this order."""


def read_decisions(words: Sequence[str], answer: str | None, waiting: Sequence[Waiting]) -> dict[str, Any]:
    """Decisions by id, from `WORD` or `ID=WORD`.

    Args:
        words: The decisions given.
        answer: The person's own answer, for a single decision.
        waiting: The decisions the run waits for.

    Raises:
        InputError: The run waits for no decision, or a decision without id is ambiguous.
    """
    if answer is not None and len(words) != 1:
        raise InputError("--answer: requires exactly one --decision")
    decisions: dict[str, Any] = {}
    for word in words:
        key, equals, decided = word.rpartition("=")
        if not equals:
            if len(waiting) != 1:
                known = ", ".join(row["id"] for row in waiting)
                many = f"the run waits for {len(waiting) or 'no'} decision{'' if len(waiting) == 1 else 's'}"
                raise InputError(
                    f"--decision {word}: {many}", hint=f"--decision ID={word}; ids: {known}" if known else ""
                )
            key = waiting[0]["id"]
        decisions[key] = {"decision": decided, "answer": answer} if answer is not None else decided
    return decisions


def ask_at_terminal(waiting: Sequence[Waiting]) -> dict[str, Any]:
    """Show each waiting decision and read the person's choice; Enter takes the suggestion."""
    decisions: dict[str, Any] = {}
    for row in waiting:
        about = row["about"]
        print(_written(row), file=sys.stderr, flush=True)
        known = about.get("decisions", {})
        word = _read(f"{'/'.join(known)} [{about.get('suggested', '')}]: ") or str(about.get("suggested", ""))
        own = _read("answer [unchanged]: ") if about.get("own_answer") and word == "accept" else ""
        decisions[row["id"]] = {"decision": word, "answer": own} if own else word
    return decisions


def how_to_decide(thread: str, waiting: Sequence[Waiting]) -> str:
    """The decisions the run waits for, and the command that resumes it."""
    lines = []
    for row in waiting:
        lines.append(_written(row))
        which = f"{row['id']}=" if len(waiting) > 1 else ""
        words = "|".join(row["about"].get("decisions", {}))
        lines.append(f"  hopgraph resume {thread} --decision {which}{words}")
    return "\n".join(["hopgraph: the run waits for a person's decision; nothing is lost", *lines])


def _written(row: Waiting) -> str:
    about = row["about"]
    lines = [f"\n{plain(row['node']).replace('_', ' ')}"]
    for name in _FIRST:
        value = about.get(name)
        rows = value if isinstance(value, list) else [value] if value else []
        lines += [f"  {name if number == 0 else '':10}{plain(str(text))}" for number, text in enumerate(rows)]
    meanings = about.get("decisions", {})
    return "\n".join([*lines, *(f"  {plain(word):10}{plain(str(text))}" for word, text in meanings.items())])


def _read(prompt: str) -> str:
    print(f"  {prompt}", end="", file=sys.stderr, flush=True)
    # asyncio's ctrl-C handler only cancels the task, which would have no effect before the line has ended.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        line = sys.stdin.readline()
    finally:
        signal.signal(signal.SIGINT, before)
    if not line:
        raise KeyboardInterrupt
    return line.strip()
