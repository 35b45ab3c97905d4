"""Shards of a run: the same questions in several processes or on several machines, each in a folder of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from hopgraph.evaluation.data import Question
from inference.errors import InputError

Item = TypeVar("Item")


@dataclass(frozen=True, order=True)
class Shard:
    """One of the parts into which a run's questions are split."""

    number: int
    """From 1."""
    of: int
    """How many there are."""

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @classmethod
    def parse(cls, text: str) -> Shard:
        """The shard that `--shard` names, such as `2/8`.

        Raises:
            InputError: It is no such pair, or out of range.
        """
        found = re.fullmatch(r"\s*([0-9]{1,6})\s*/\s*([0-9]{1,6})\s*", text)
        if found is None:
            raise InputError(f"--shard {text!r}: must be NUMBER/COUNT", hint="such as --shard 2/8")
        shard = cls(int(found[1]), int(found[2]))
        if not 1 <= shard.number <= shard.of:
            raise InputError(
                f"--shard {text!r}: the number must be 1 to {max(1, shard.of)}", hint="shards are counted from 1"
            )
        return shard

    @classmethod
    def of_run(cls, about: Mapping[str, Any]) -> Shard | None:
        """The shard of a run, from its `run.json`; None: it has all questions."""
        row = about.get("shard")
        return cls(int(row["number"]), int(row["of"])) if row else None

    def as_row(self) -> dict[str, int]:
        """As `run.json` has it."""
        return {"number": self.number, "of": self.of}

    def part(self, questions: Sequence[Item]) -> list[Item]:
        """Its part of a run's questions, or of their positions: every `of`-th one.

        All variants of a question are in the same shard.
        """
        return list(questions[self.number - 1 :: self.of])


def own_questions(about: Mapping[str, Any], questions: Sequence[Question]) -> list[Question]:
    """The questions that a run answers itself: its shard's, or all.

    Args:
        about: Its `run.json`.
        questions: All questions of `questions.jsonl`, which every shard has.
    """
    shard = Shard.of_run(about)
    return list(questions) if shard is None else shard.part(questions)


def shard_folders(path: Path, about: Mapping[str, Any]) -> list[Path]:
    """Folders of the shards that have a run's checkpoints, by number; none if it has its own.

    Args:
        path: The run's folder.
        about: Its `run.json`.
    """
    if "merged" in about:
        return [Path(row["folder"]) for row in about["merged"]]
    count = int(about.get("ray", {}).get("shards", 0))
    return [path / "shards" / f"{number}-of-{count}" for number in range(1, count + 1)]
