"""`hopgraph studio`: all graphs on LangGraph's local server, for Studio."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from inference.settings import Settings

PORT = 2024
"""LangGraph's default port."""
LISTED = 200
"""Number of threads listed in the server when it starts."""


def studio(
    run: Annotated[Path | None, typer.Option(help="Show the threads of this evaluation run's folder instead.")] = None,
    thread: Annotated[str | None, typer.Option(help="Print the address of this thread.")] = None,
    index: Annotated[
        str | None, typer.Option("--index", "-i", help="Index of the named assistants. Default: the only index.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Port on 127.0.0.1; 0: any free port. Default: 2024, or any free port if it is taken.",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, max=64, help="Maximum number of concurrent runs.")] = 4,
) -> None:
    """Serve all graphs on 127.0.0.1, with a page that shows and edits runs and for LangGraph Studio, until ctrl-C."""
    from hopgraph.cli.checks import check_index, run_checkpoints
    from hopgraph.studio.packages import server_packages
    from hopgraph.studio.server import PLAN, Plan, environment
    from inference.errors import InputError
    from inference.settings import get_settings
    from stores.checkpoints import checkpoint_place
    from stores.index import list_indexes

    settings = get_settings()
    place = checkpoint_place() if run is None else run_checkpoints(run)
    if "://" not in place:
        place = str(Path(place).expanduser().resolve())
    if index is not None:
        check_index(index)
    elif len(known := list_indexes()) == 1:
        (index,) = known
    port = _free_port() if port is None else _bound(port)
    threads, more, opened = asyncio.run(_threads(place, thread))
    plan = Plan(port=port, jobs=jobs, index=index, threads=threads, more=more, opened=opened)
    home = settings.home.resolve()
    packages = server_packages(home, lambda text: print(text, file=sys.stderr, flush=True))
    folder = state_folder(home, place)
    variables = environment(dict(os.environ)) | _absolute(settings) | {"HOPGRAPH_CHECKPOINTS": place}
    variables["PYTHONPATH"] = os.pathsep.join(_path(packages))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _hold(folder, place)
        (folder / PLAN).write_text(plan.dump(), encoding="utf-8")
        os.chdir(folder)
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}") from None
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, "-P", "-m", "hopgraph.studio"], variables)  # noqa: S606


def state_folder(home: Path, place: str) -> Path:
    """Folder of the server's list of threads and assistants, one for each checkpoint store."""
    import hashlib

    return home / "studio" / hashlib.sha256(place.encode()).hexdigest()[:12]


def _hold(folder: Path, place: str) -> None:
    """Lock the folder until this process ends: two servers would overwrite each other's list.

    Raises:
        StoreError: Another server holds the lock.
    """
    import json

    from hopgraph.studio.server import HOST, PLAN
    from inference.errors import StoreError
    from inference.locks import lock

    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    if not lock(handle):
        os.close(handle)
        try:
            there = f" at http://{HOST}:{json.loads((folder / PLAN).read_text('utf-8'))['port']}"
        except (OSError, ValueError, KeyError):
            there = ""
        raise StoreError(
            f"another `hopgraph studio` serves the threads of {place}{there}",
            hint="use or stop that server, or set HOPGRAPH_CHECKPOINTS to another file",
        )
    os.set_inheritable(handle, True)


def _free_port() -> int:
    """LangGraph's default port, or any free port if it is taken."""
    from inference.errors import InputError

    try:
        return _bound(PORT)
    except InputError:
        return _bound(0)


def _bound(port: int) -> int:
    """The port; for 0 any free port.

    Raises:
        InputError: The port is taken.
    """
    import socket

    from hopgraph.studio.server import HOST
    from inference.errors import InputError

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise InputError(
                f"--port: {port} is not available on {HOST} ({error.strerror})", hint="--port 0 chooses a free port"
            ) from None
        return int(probe.getsockname()[1])


async def _threads(place: str, thread: str | None) -> tuple[list[tuple[str, str, str]], int, dict[str, Any] | None]:
    """The threads to list, how many more there are, and the one to open."""
    from hopgraph.origins import find_origin, origin_of
    from hopgraph.threads import read_thread
    from stores.checkpoints import kept_threads, open_checkpoints

    async with open_checkpoints(place) as saver:
        kept, total = await kept_threads(saver, LISTED)
        rows = []
        for row in kept:
            origin = origin_of(row.metadata)
            if origin is None and (kept_origin := await find_origin(row.id, saver)):
                origin = kept_origin[0]
            if origin is not None:
                rows.append((row.id, origin.method, origin.question[:200]))
        opened = None
        if thread is not None:
            found = await read_thread(thread, saver)
            opened = {
                "id": thread,
                "method": found.method,
                "context": found.context.model_dump(mode="json", exclude_unset=True),
            }
            if thread not in [key for key, _, _ in rows]:
                rows.append((thread, found.method, found.question))
    return rows, max(total - len(kept), 0), opened


def _absolute(settings: Settings) -> dict[str, str]:
    """Variables with paths, made absolute for a process in another folder."""
    paths = {name: value for name, value in settings if isinstance(value, Path)}
    if Path(settings.embedded_model).is_file():
        paths["embedded_model"] = Path(settings.embedded_model)
    return {f"HOPGRAPH_{name.upper()}": str(value.resolve()) for name, value in paths.items()}


def _path(packages: Path | None) -> list[str]:
    """First entries of the server's search path: its packages, and Hopgraph unless it is installed."""
    import site

    here = Path(__file__).resolve().parents[2]
    installed = [Path(folder).resolve() for folder in [*site.getsitepackages(), site.getusersitepackages()]]
    given = [str(Path(folder).resolve()) for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    first = [str(packages)] if packages is not None else []
    return list(dict.fromkeys([*first, *([] if here in installed else [str(here)]), *given]))
