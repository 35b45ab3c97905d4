"""Checks before a command starts its work, and confirmation at the terminal."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from inference.errors import InputError


def check_index(name: str | None) -> None:
    """Check that an index exists; called before a model is started."""
    from nodes.kit.passages import index_ref

    index_ref(name)


def run_checkpoints(folder: Path, thread: str | None = None) -> str:
    """Path or URL of an evaluation run's checkpoints. A merged run's are those of the thread's shard.

    Raises:
        InputError: The folder has none, or they are in Postgres and HOPGRAPH_CHECKPOINTS names none.
        StoreError: It is a merged run, and damaged.
    """
    from hopgraph.evaluation import checkpoints
    from hopgraph.evaluation.folder import RunFolder
    from hopgraph.evaluation.merging import shard_of_thread

    path = folder / "checkpoints.sqlite"
    run = RunFolder(folder)
    if not path.is_file() and run.started:
        about = run.about()
        shard = shard_of_thread(run, thread) if thread else None
        row = next((row for row in about.get("merged", []) if Path(row["folder"]) == shard), about)
        if checkpoints.KEY in row:
            return checkpoints.place_of(run, row)
        if shard is not None:
            path = shard / path.name
            if not path.is_file():
                raise InputError(
                    f"--run {folder}: its shard {shard} is missing", hint="checkpoints stay with the shards"
                )
    if not path.is_file():
        raise InputError(f"--run {folder}: has no checkpoints.sqlite", hint="name a folder of `hopgraph eval`")
    return str(path)


async def check_endpoint(model: str | None, generator_model: str | None = None) -> None:
    """Check that an endpoint can be used, instead of failing after the retries of the first call.

    Raises:
        InputError, EndpointError: See `Endpoint.check`.
    """
    from inference.settings import get_settings
    from nodes.kit.model import open_endpoint

    await (await open_endpoint(model)).check()
    if get_settings().server("generator").own or generator_model:
        await (await open_endpoint(generator_model, "generator")).check()


def confirm(question: str, *, refused: str, hint: str) -> None:
    """Ask for confirmation at the terminal.

    Args:
        question: The question.
        refused: Message of the error if the answer is no or there is no terminal.
        hint: How to skip the confirmation, and alternatives.

    Raises:
        InputError: The answer is no, or there is no terminal.
    """
    asked = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    if not asked or not typer.confirm(question, err=True):
        raise InputError(refused, hint=hint)
