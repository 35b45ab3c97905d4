"""Chooses examples for a run that teaches some roles and shall change no other.

python -m training.agents.rehearse --examples OUT/train.jsonl --teach hanrag/synthesizer parrag/generator --to SOME
python -m training.lora.train --examples SOME/train.jsonl --adapter ADAPTER ...

Examples of the taught roles have the perfect agents' replies. Of every other role some are kept, with the reply that
the model, with its adapter, gives now: such an example changes nothing as long as that reply is the most probable one
(learning without forgetting, Li and Hoiem 2016, with hard labels). `SOME` keeps all replies: an interrupted run
continues when it is started again.
"""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from training.agents.accuracy import check_skills, read_sample, reply_of, schema_of
from training.command import guarded, parser
from training.lora.chats import Chat, ChatMessage
from training.lora.prompts import check_prompts, prompt_hashes
from training.lora.replies import first, replies_to
from training.measures import table
from training.rows import write_rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; gives the exit code."""
    flags = parser("agents.rehearse", "Choose examples that teach some roles, and keep the others as they are.")
    flags.add_argument("--examples", type=Path, required=True, help="train.jsonl of training.agents.build")
    flags.add_argument("--to", type=Path, required=True, help="folder for the examples and all replies")
    flags.add_argument("--teach", nargs="+", metavar="METHOD/NODE", required=True, help="roles to teach")
    flags.add_argument("--taught", type=int, help="examples of a taught role at most")
    flags.add_argument("--kept", type=int, default=20, help="examples of any other role at most")
    flags.add_argument("--model", help="model name at the endpoint")
    flags.add_argument("--max-tokens", type=int, default=256, help="longest reply; a longer one is left out")
    options = flags.parse_args(arguments)
    return guarded(lambda: _rehearse(options))


def _rehearse(options: Namespace) -> str:
    check_prompts(options.examples)
    chats = read_sample(options.examples)
    skills = sorted({chat["skill"] for chat in chats})
    check_skills("--teach", options.teach, skills, options.examples)
    taught = first(chats, list(dict.fromkeys(options.teach)), options.taught)
    others = first(chats, [skill for skill in skills if skill not in options.teach], options.kept)
    options.to.mkdir(parents=True, exist_ok=True)
    replies = asyncio.run(replies_to(others, options.to, schema_of, model=options.model, max_tokens=options.max_tokens))
    kept: list[Chat] = []
    for chat, reply in zip(others, replies, strict=True):
        # A reply that was cut, as one that no schema asked for, is nothing to go on with.
        if reply and reply_of(reply.text) is not None:
            kept.append({**chat, "completion": [ChatMessage(role="assistant", content=reply.text)]})
    write_rows(options.to / "train.jsonl", [*taught, *kept])
    write_rows(options.to / "build.json", [{"train": len(taught) + len(kept), "prompts": prompt_hashes()}])
    counts = Counter(chat["skill"] for chat in (*taught, *kept))
    asked = Counter(chat["skill"] for chat in others)
    lines = [(skill, counts[skill], asked[skill] - counts[skill] if skill in asked else "taught") for skill in skills]
    return table(["role", "examples", "unreadable"], lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
