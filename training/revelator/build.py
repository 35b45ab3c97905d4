"""Builds the five data sets that the Revelator is fine-tuned on (HANRAG, Sec. 4.2, App. B).

python -m training.revelator.build --data ../shared/data --to OUT

writes `OUT/train.jsonl` and `OUT/heldout.jsonl`, all five skills mixed, as chats of exactly the prompts that the nodes
send; `OUT/report.md` counts them by skill, label and source, and `OUT/build.json` says how they were made.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from training.command import guarded, parser
from training.lora.prompts import prompt_hashes
from training.measures import table
from training.revelator.chat import as_chat
from training.revelator.examples import SKILLS, Example, chosen
from training.revelator.sources import all_examples
from training.rows import write_rows


def report(train: Sequence[Example], held: Sequence[Example], left_out: Mapping[str, int]) -> str:
    """Markdown: examples by skill, label and source."""
    counts = [Counter((row.skill, row.label, row.source) for row in rows) for rows in (train, held)]
    totals = [Counter(row.skill for row in rows) for rows in (train, held)]
    lines: list[tuple[object, ...]] = []
    for skill in SKILLS:
        lines.append((f"**{skill}**", "", "", *(f"**{of[skill]}**" for of in totals)))
        keys = sorted(key for key in {*counts[0], *counts[1]} if key[0] == skill)
        lines += [(*key, *(of[key] for of in counts)) for key in keys]
    gone = ", ".join(f"{count} ({cause})" for cause, count in left_out.items())
    built = table(["skill", "label", "source", "train", "held out"], lines, texts=3)
    return f"{built}\n\nLeft out: {gone}.\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; gives the exit code."""
    flags = parser("revelator.build", "Build the Revelator's training data.")
    flags.add_argument("--data", type=Path, required=True, help="folder with train/ and the data sets")
    flags.add_argument("--to", type=Path, required=True, help="folder to write")
    flags.add_argument("--compound", type=Path, help="train.jsonl of the compound benchmark: more compound questions")
    flags.add_argument("--limit", type=int, help="training examples of a skill at most, labels balanced")
    flags.add_argument("--held-out", type=int, default=200, help="held-out examples of a skill at most")
    flags.add_argument("--seed", type=int, default=0, help="decides which are chosen, and their order")
    options = flags.parse_args(arguments)
    return guarded(lambda: _build(options))


def _build(options: Namespace) -> str:
    train, held, left_out = all_examples(options.data, options.compound)
    train, held = chosen(train, options.limit, options.seed), chosen(held, options.held_out, options.seed)
    options.to.mkdir(parents=True, exist_ok=True)
    write_rows(options.to / "train.jsonl", map(as_chat, train))
    write_rows(options.to / "heldout.jsonl", map(as_chat, held))
    facts = {
        "seed": options.seed,
        "limit": options.limit,
        "held_out": options.held_out,
        "prompts": prompt_hashes(f"hanrag/{skill}" for skill in SKILLS),
    }
    write_rows(options.to / "build.json", [facts | {"train": len(train), "heldout": len(held)}])
    text = report(train, held, left_out)
    (options.to / "report.md").write_text(text, "utf-8")
    return text


if __name__ == "__main__":
    sys.exit(main())
