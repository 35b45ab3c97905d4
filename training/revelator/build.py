"""Builds the five data sets that the Revelator is fine-tuned on (HANRAG, Sec. 4.2, App. B).

python -m training.revelator.build --data ../shared/data --to OUT

writes `OUT/train.jsonl` and `OUT/heldout.jsonl`, all five skills mixed, as chats of exactly the prompts that the nodes
send; `OUT/report.md` counts them by skill, label and source, and `OUT/build.json` says how they were made.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from inference.errors import HopgraphError
from training.revelator.chat import as_chat, prompt_hash
from training.revelator.examples import SKILLS, Example, all_examples, chosen

__all__ = ["main", "report"]


def report(train: Sequence[Example], held: Sequence[Example], left_out: Mapping[str, int]) -> str:
    """Markdown: examples by skill, label and source."""
    counts = [Counter((row.skill, row.label, row.source) for row in rows) for rows in (train, held)]
    totals = [Counter(row.skill for row in rows) for rows in (train, held)]
    lines = ["| skill | label | source | train | held out |", "|---|---|---|---:|---:|"]
    for skill in SKILLS:
        lines.append(f"| **{skill}** | | | **{totals[0][skill]}** | **{totals[1][skill]}** |")
        for key in sorted(key for key in {*counts[0], *counts[1]} if key[0] == skill):
            lines.append(f"| {skill} | {key[1]} | {key[2]} | {counts[0][key]} | {counts[1][key]} |")
    gone = ", ".join(f"{count} ({cause})" for cause, count in left_out.items())
    return "\n".join(lines) + f"\n\nLeft out: {gone}.\n"


def _write(path: Path, examples: Sequence[Example]) -> None:
    fresh = path.with_suffix(".new")
    with fresh.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(as_chat(example), ensure_ascii=False) + "\n" for example in examples)
    fresh.replace(path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; gives the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m training.revelator.build", description="Build the Revelator's training data."
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with train/ and the data sets")
    parser.add_argument("--to", type=Path, required=True, help="folder to write")
    parser.add_argument(
        "--compound", type=Path, help="train.jsonl of the compound benchmark, for more compound questions"
    )
    parser.add_argument(
        "--limit", type=int, help="training examples of a skill at most, labels balanced (default: all)"
    )
    parser.add_argument("--held-out", type=int, default=200, help="held-out examples of a skill at most")
    parser.add_argument("--seed", type=int, default=0, help="decides which are chosen, and their order")
    options = parser.parse_args(arguments)
    try:
        train, held, left_out = all_examples(options.data, options.compound)
        train, held = chosen(train, options.limit, options.seed), chosen(held, options.held_out, options.seed)
        options.to.mkdir(parents=True, exist_ok=True)
        _write(options.to / "train.jsonl", train)
        _write(options.to / "heldout.jsonl", held)
    except HopgraphError as error:
        sys.stderr.write(f"{error.message}\n{error.hint}\n")
        return error.exit_code
    facts = {"seed": options.seed, "limit": options.limit, "held_out": options.held_out, "prompts": prompt_hash()}
    (options.to / "build.json").write_text(
        json.dumps(facts | {"train": len(train), "heldout": len(held)}) + "\n", "utf-8"
    )
    text = report(train, held, left_out)
    (options.to / "report.md").write_text(text, "utf-8")
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
