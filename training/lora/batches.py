"""Batches of examples that begin with the same tokens, and are padded little."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

ALIKE = 0.5
"""Share of a prompt from which on two examples are of one batch because of what they have in common."""
TOGETHER = 8
"""Examples of a batch at most. A skill of short prompts would be in so few batches that part of an epoch misses it."""


@dataclass(frozen=True, slots=True)
class Example:
    """An example in tokens."""

    skill: str
    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    weight: float = 1.0
    """Of each token of the completion in the loss."""


def weighted(rows: Sequence[Example], exponent: float) -> list[Example]:
    """The examples with a completion of n tokens weighing each of them n**-exponent; the mean weight of a token is 1.

    Without it a plan of a hundred tokens counts fifteen times a judge's verdict, of whose seven tokens one decides.

    Args:
        rows: Examples.
        exponent: 0 counts all tokens alike, 1 all completions.
    """
    lengths = [len(row.completion) for row in rows]
    scale = sum(lengths) / sum(length ** (1 - exponent) for length in lengths)
    return [replace(row, weight=scale * length**-exponent) for row, length in zip(rows, lengths, strict=True)]


def batches(rows: Sequence[Example], tokens: int, seed: int) -> list[list[Example]]:
    """Batches of one skill each, in random order, every skill spread evenly over all of it.

    Examples about the same passages are together; the others of a skill are put together by length, roughly.

    Args:
        rows: Examples.
        tokens: Tokens of a batch at most, padding included and a common beginning counted once; an example that is
            longer is alone.
        seed: Decides the order.
    """
    dice = random.Random(seed)  # noqa: S311
    of: dict[str, list[Example]] = defaultdict(list)
    for row in rows:
        of[row.skill].append(row)
    placed: list[tuple[float, list[Example]]] = []
    for _, some in sorted(of.items()):
        made: list[list[Example]] = []
        alone: list[Example] = []
        for group in _groups(sorted(some, key=lambda row: row.prompt)):
            if len(group) > 1:
                made += _cut(group, tokens)
            else:
                alone += group
        dice.shuffle(alone)
        made += _cut(sorted(alone, key=_about_as_long), tokens)
        dice.shuffle(made)
        placed += [((place + dice.random()) / len(made), batch) for place, batch in enumerate(made)]
    return [batch for _, batch in sorted(placed, key=lambda found: found[0])]


def _about_as_long(row: Example) -> int:
    """The length in steps of two fifths: by length alone, batches of verdicts are mostly of one verdict."""
    return round(2 * math.log2(len(row.prompt) + len(row.completion)))


def _groups(rows: Sequence[Example]) -> Iterator[list[Example]]:
    """Runs of sorted examples that have most of their prompt in common, beyond what the whole skill has."""
    instructions = _in_common(rows[0].prompt, rows[-1].prompt)
    group: list[Example] = []
    for row in rows:
        if group:
            same = _in_common(group[0].prompt, row.prompt) - instructions
            if same <= ALIKE * (len(row.prompt) - instructions):
                yield group
                group = []
        group.append(row)
    yield group


def _cut(rows: Sequence[Example], tokens: int) -> Iterator[list[Example]]:
    """Consecutive examples in batches of at most `tokens`, and `TOGETHER` examples."""
    batch: list[Example] = []
    for row in rows:
        if batch and (len(batch) == TOGETHER or size([*batch, row]) > tokens):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def size(batch: Sequence[Example]) -> int:
    """Tokens of a batch, padding included and the common beginning counted once."""
    shared = min(_in_common(batch[0].prompt, row.prompt) for row in batch[1:]) if len(batch) > 1 else 0
    longest = max(len(row.prompt) + len(row.completion) for row in batch)
    return shared + len(batch) * (longest - shared)


def _in_common(one: Sequence[int], other: Sequence[int]) -> int:
    """Tokens that both begin with."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
