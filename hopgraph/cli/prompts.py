"""`hopgraph prompts`: list them, show one, check an overlay folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hopgraph.cli import completion

prompts = typer.Typer(invoke_without_command=True, help="List the prompts, show one, or check an overlay folder.")


@prompts.callback()
def list_prompts(context: typer.Context) -> None:
    """List the prompts with their origin and purpose."""
    if context.invoked_subcommand is not None:
        return
    from rich.table import Table

    from hopgraph.views.console import unwrapped
    from prompts.loader import FOLDER, load_prompt, prompt_names

    names = prompt_names()
    table = Table(box=None)
    table.add_column("name", no_wrap=True, min_width=max(map(len, names)))
    table.add_column("hash", no_wrap=True)
    table.add_column("from", overflow="fold")
    table.add_column("purpose")
    for name in names:
        prompt = load_prompt(name)
        own = Path(prompt.origin).is_relative_to(FOLDER)
        table.add_row(name, prompt.hash, "hopgraph" if own else prompt.origin, prompt.purpose)
    unwrapped().print(table)


@prompts.command()
def show(
    name: Annotated[str, typer.Argument(help="Such as prism/selector.", autocompletion=completion.prompt_files)],
) -> None:
    """Print the file of a prompt currently in use; copy it to an overlay folder to change it."""
    from prompts.loader import load_prompt

    prompt = load_prompt(name)
    print(f"file: {prompt.origin}\nhash: {prompt.hash}", file=sys.stderr, flush=True)
    print(Path(prompt.origin).read_text("utf-8-sig"), end="")


@prompts.command()
def check(
    folder: Annotated[Path | None, typer.Argument(help="Overlay folder; default HOPGRAPH_PROMPTS.")] = None,
) -> None:
    """Check every prompt of an overlay folder, and report the errors with their locations."""
    from inference.errors import InputError
    from inference.settings import get_settings
    from nodes.kit.rendering import counted
    from prompts.loader import check_overlay

    folder = folder or get_settings().prompts
    if folder is None:
        raise InputError("no folder to check", hint="name one, or set HOPGRAPH_PROMPTS")
    rows = check_overlay(folder)
    for path, problem in rows:
        print(problem or f"{path}: ok")
    bad = sum(problem is not None for _, problem in rows)
    print(f"{counted(len(rows), 'prompt')}, {bad} with errors")
    if bad or not rows:
        raise typer.Exit(2)
