"""`hopgraph trace`: a run as one HTML page."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from hopgraph.cli import completion


def trace(
    thread: Annotated[
        str,
        typer.Argument(help="Id of the thread, as `hopgraph ask` prints it.", autocompletion=completion.threads),
    ],
    out: Annotated[Path | None, typer.Option(help="The file to write. Default: trace-THREAD.html.")] = None,
    run: Annotated[Path | None, typer.Option(help="Folder of the thread's evaluation run.")] = None,
) -> None:
    """Write a run as one self-contained HTML page: its path, every step, prompts, replies and passages."""
    from hopgraph.cli.checks import run_checkpoints
    from hopgraph.record import RunRecord, read_record
    from hopgraph.threads import readable
    from hopgraph.views.trace import mentioned, render_trace
    from inference.errors import InputError
    from nodes.kit.passages import find
    from stores.checkpoints import open_checkpoints

    place = run_checkpoints(run, thread) if run is not None else None

    async def read() -> RunRecord:
        async with open_checkpoints(place, read_only=True) as saver:
            return await read_record(thread, saver)

    record = asyncio.run(read())
    with readable(thread):
        page = render_trace(record, find(record.thread.context.index, mentioned(record)))
    path = out or Path(f"trace-{thread}.html")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    print(path)
