"""The prompts that examples were made with: what a model has learned fits these."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from inference.errors import InputError
from prompts.loader import load_prompt, prompt_names


def prompt_hashes(names: Iterable[str] | None = None) -> dict[str, str]:
    """Hash of prompts by name; default: of all."""
    return {name: load_prompt(name).hash for name in (prompt_names() if names is None else names)}


def check_prompts(examples: Path) -> None:
    """Compare the prompts of now with those of examples: `prompts` in `build.json` beside them, if it is there.

    Raises:
        InputError: One has changed.
    """
    try:
        facts = json.loads((examples.parent / "build.json").read_text("utf-8"))
    except (OSError, ValueError):
        return  # examples from elsewhere
    built = facts.get("prompts") if isinstance(facts, dict) else None
    now = prompt_hashes()
    changed = [name for name, hash in built.items() if now.get(name) != hash] if isinstance(built, dict) else []
    if changed:
        raise InputError(
            f"{examples} was built with other prompts than those of now: {', '.join(changed[:3])}",
            hint="build it again: its build.json is older",
        )
