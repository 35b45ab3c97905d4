"""`hopgraph list`: indexes, threads and runs. `hopgraph rm`: delete one of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hopgraph import loop
from hopgraph.cli import completion
from hopgraph.cli.errors import print_json
from hopgraph.cli.options import AsJson
from hopgraph.cli.stopping import stoppable

if TYPE_CHECKING:
    from langgraph.checkpoint.base import CheckpointTuple

_AGAIN = "run the same command again to delete the rest"
_INTERRUPT = "__interrupt__"
"""LangGraph's channel for interrupts."""

lists = typer.Typer(no_args_is_help=True, help="List indexes, threads or evaluation runs, newest first.")
rm = typer.Typer(no_args_is_help=True, help="Delete an index, threads or an evaluation run.")

Limit = Annotated[int, typer.Option(min=1, help="Maximum number listed.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask for confirmation.")]


@lists.command()
def indexes(limit: Limit = 100, as_json: AsJson = False) -> None:
    """Names, sizes, states and dates of the indexes."""
    from dataclasses import asdict

    from stores.overview import index_infos

    found = index_infos()
    _print("indexes", [asdict(info) for info in found[:limit]], len(found), as_json)


@lists.command()
def threads(limit: Limit = 20, as_json: AsJson = False) -> None:
    """Threads of `ask`: method, status, date and question."""
    rows, total = loop.run(_threads(limit))
    _print("threads", rows, total, as_json)


@lists.command()
def runs(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Folders to search. Default: the current one and `runs` in it.")
    ] = None,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """Evaluation runs in folders and their direct subfolders: methods, questions done, state, date."""
    from inference.errors import InputError

    for folder in folders or []:
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder", hint="it is relative to the current folder")
    looked = folders or [path for path in (Path(), Path("runs")) if path.is_dir()]
    found = [path for folder in looked for path in (folder / "run.json", *folder.glob("*/run.json")) if path.is_file()]
    rows = [_run(path.parent) for path in dict.fromkeys(found)]
    rows.sort(key=lambda row: (row["changed"], row["folder"]), reverse=True)
    _print("runs", rows[:limit], len(rows), as_json)


@rm.command("index")
def rm_index(
    name: Annotated[str, typer.Argument(help="Name of the index.", autocompletion=completion.indexes)], yes: Yes = False
) -> None:
    """Delete an index with its knowledge base, also on a Chroma server."""
    from stores.overview import index_infos, remove_index

    known = {info.name: info for info in index_infos()}
    if name in known and not yes:
        size = f"{known[name].passages or 0:,} passages, {known[name].bytes / 1e6:,.1f} MB"
        _ask(f"index {name!r} ({size})", f"hopgraph rm index {name}")
    with stoppable(_AGAIN):
        remove_index(name)
    typer.echo(f"Deleted index {name}")


@rm.command("thread")
def rm_thread(
    ids: Annotated[list[str], typer.Argument(help="Ids of threads.", autocompletion=completion.threads)],
    yes: Yes = False,
) -> None:
    """Delete threads of `ask` with all their checkpoints: all threads or none."""
    if not yes:
        _ask(f"{len(ids)} thread{'' if len(ids) == 1 else 's'}", "hopgraph rm thread")
    loop.run(_delete_threads(list(dict.fromkeys(ids))))
    typer.echo(f"Deleted {', '.join(dict.fromkeys(ids))}")


@rm.command("run")
def rm_run(folder: Annotated[Path, typer.Argument(help="Folder of the run.")], yes: Yes = False) -> None:
    """Delete an evaluation run: checkpoints, files of `eval` and `report`, and the folder if it is then empty."""
    from hopgraph.evaluation.folder import RunFolder
    from hopgraph.evaluation.shards import shard_folders

    run = RunFolder(folder)
    about = run.about()  # raises if there is no run
    if not yes:
        row = _run(folder)
        _ask(f"the run in {folder} ({row['done']} of {row['total']} questions done)", f"hopgraph rm run {folder}")
    with run.locked(), stoppable(_AGAIN):
        if "ray" in about:  # its shards are its own
            for path in shard_folders(folder, about):
                if path.is_dir():
                    _delete_checkpoints(path)
                    _delete_run(path)
            with suppress(OSError):
                (folder / "shards").rmdir()
        else:
            _delete_checkpoints(folder)
        left = _delete_run(folder)
    typer.echo(f"Deleted the run in {folder}" + (f"; left: {', '.join(left)}" if left else ""))


def _delete_checkpoints(folder: Path) -> None:
    """Delete a run's checkpoints from Postgres; those in a file are deleted with its folder."""
    from hopgraph.evaluation import checkpoints
    from hopgraph.evaluation.folder import RunFolder

    run = RunFolder(folder)
    if run.started and checkpoints.KEY in (about := run.about()):
        loop.run(checkpoints.delete_threads(run, about))


def _ask(what: str, command: str) -> None:
    from hopgraph.cli.checks import confirm

    confirm(f"Delete {what}?", refused=f"{what}: not deleted", hint=f"`{command} --yes` deletes without asking")


async def _threads(limit: int) -> tuple[list[dict[str, Any]], int]:
    """Reads the latest checkpoints of the newest threads only, and of the others only the text columns."""
    from hopgraph.origins import origin_of
    from stores.checkpoints import kept_threads, open_checkpoints

    rows: list[dict[str, Any]] = []
    async with open_checkpoints(read_only=True) as saver:
        kept, total = await kept_threads(saver, limit)
        for thread in kept:
            origin = origin_of(thread.metadata)
            latest = await saver.aget_tuple({"configurable": {"thread_id": thread.id}})
            values = latest.checkpoint["channel_values"] if latest else {}
            rows.append(
                {
                    "thread": thread.id,
                    "method": origin.method if origin else "",
                    "status": _status(latest) if latest else "",
                    "changed": str(latest.checkpoint["ts"])[:19] + "+00:00" if latest else "",
                    "question": (origin.question if origin else "") or str(values.get("question", "")),
                }
            )
    return rows, total


def _status(latest: CheckpointTuple) -> str:
    """`answered`, `unanswerable` or `failed` for a finished run, `waiting` for a person, else `unfinished`."""
    values = latest.checkpoint["channel_values"]
    if any(channel == _INTERRUPT for _, channel, _ in latest.pending_writes or []):
        return "waiting"
    if any(channel.startswith(("branch:to:", "__start__")) for channel in values) or values.get("__pregel_tasks"):
        return "unfinished"
    return str(values.get("status", "unfinished"))


async def _delete_threads(ids: Sequence[str]) -> None:
    from contextlib import AsyncExitStack

    from hopgraph.origins import check_thread
    from inference.errors import StoreError
    from stores.checkpoints import only_here, open_checkpoints

    async with open_checkpoints() as saver, AsyncExitStack() as held:
        for thread in ids:
            if await saver.aget_tuple({"configurable": {"thread_id": check_thread(thread)}}) is None:
                raise StoreError(
                    f"unknown thread {thread}; none was deleted", hint="`hopgraph list threads` lists the threads"
                )
            await held.enter_async_context(only_here(saver, thread))
        with stoppable("`hopgraph list threads` lists the remaining ones"):
            for thread in ids:
                await saver.adelete_thread(thread)


def _run(folder: Path) -> dict[str, Any]:
    from hopgraph.evaluation.folder import RunFolder
    from hopgraph.evaluation.shards import Shard
    from inference.errors import HopgraphError

    row: dict[str, Any] = {"folder": str(folder), "methods": [], "done": 0, "total": 0, "state": "", "changed": ""}
    run = RunFolder(folder)
    try:
        about = run.about()
        identity = about["identity"]
        row["methods"] = sorted({str(variant["method"]) for variant in identity["variants"].values()})
        row["changed"] = str(about["created"])
        numbers = range(int(identity["questions"]["count"]))
        shard = Shard.of_run(about)
        row["total"] = len(shard.part(numbers) if shard else numbers) * len(identity["variants"])
        row["done"] = _count_lines(folder / "results.jsonl")
        row["state"] = "complete" if row["done"] >= row["total"] else "unfinished"
        with run.locked():
            pass
    except HopgraphError as error:
        row["state"] = "running" if row["state"] else f"damaged: {error.message}"
    except (OSError, LookupError, TypeError, ValueError, AttributeError):
        row["state"] = "damaged"
    return row


def _count_lines(path: Path) -> int:
    if not path.exists():
        return 0
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


_RUN_FILES = ("questions.jsonl", "results.jsonl", "judgements.jsonl", "report.html", "run.json")
"""`run.json` last: an interrupted deletion can be repeated."""


def _delete_run(folder: Path) -> list[str]:
    """Delete a run's files; returns the names of other files, which are kept."""
    from inference.errors import StoreError

    try:
        for name in (*(f"checkpoints.sqlite{end}" for end in ("-wal", "-shm", "")), *_RUN_FILES):
            (folder / name).unlink(missing_ok=True)
        if not (left := sorted(path.name for path in folder.iterdir())):
            folder.rmdir()
    except OSError as error:
        raise StoreError(f"{error.filename or folder}: can't be deleted ({error.strerror})") from error
    return left


def _print(what: str, rows: list[dict[str, Any]], total: int, as_json: bool) -> None:
    if as_json:
        print_json({what: rows, "total": total})
        return
    from nodes.kit.rendering import plain

    if not rows:
        typer.echo(f"No {what}.")
        return
    # Lines are neither wrapped nor cut: programs may read them.
    table = [list(rows[0]), *([plain(_cell(value)) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    if total > len(rows):
        typer.echo(f"... {total - len(rows):,} more: --limit lists more")


def _cell(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    if isinstance(value, int):
        return f"{value:,}"
    return "-" if value is None else " ".join(str(value).split())
