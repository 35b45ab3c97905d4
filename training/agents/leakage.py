"""Checks that no example asks what a dev set asks: neither its question, nor anything asked on the way to its answer.

python -m training.agents.leakage --data ../shared/data --examples OUT/train.jsonl

Every dev question and dev sub-question of the data folder is compared, by its words, with the question of each example
and with whatever stands between <question> or <query> tags in its prompt.
"""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from inference.errors import InputError
from training.command import guarded, parser
from training.lora.chats import Chat, read_chats
from training.rows import dev_questions
from training.words import normalised

_ASKED = re.compile(r"<(question|query)>(.*?)</\1>", re.DOTALL)


def asked(chat: Chat) -> Iterator[str]:
    """What an example asks."""
    yield chat["question"]
    for _, text in _ASKED.findall(chat["prompt"][-1]["content"]):
        yield text


def leaks(data: Path, examples: Path) -> tuple[list[str], int, int]:
    """Ids of examples that ask what a dev set asks, and the numbers of examples and dev questions compared.

    Args:
        data: Folder that holds a folder for each data set.
        examples: Chats.

    Raises:
        InputError: A file is missing or malformed.
    """
    dev = dev_questions(data)
    found, count = [], 0
    for chat in read_chats(examples):
        count += 1
        if any(normalised(text) in dev for text in asked(chat)):
            found.append(f"{chat['id']} ({chat['question']})")
    return found, count, len(dev)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; gives the exit code."""
    flags = parser("agents.leakage", "Check training examples against all dev questions.")
    flags.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    flags.add_argument("--examples", type=Path, required=True, help="train.jsonl of training.agents.build")
    options = flags.parse_args(arguments)
    return guarded(lambda: _check(options))


def _check(options: Namespace) -> str:
    found, count, dev = leaks(options.data, options.examples)
    if found:
        raise InputError(
            f"{options.examples}: {len(found)} of {count:,} examples ask a dev question, such as {found[0]}",
            hint="build the examples again: python -m training.agents.build",
        )
    return f"{count:,} examples, {dev:,} dev questions and sub-questions: none in common\n"


if __name__ == "__main__":
    sys.exit(main())
