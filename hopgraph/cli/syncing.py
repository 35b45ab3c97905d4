"""`hopgraph index --sync` and `--watch`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import typer

from hopgraph.cli.errors import note
from hopgraph.cli.index_report import report, telling
from hopgraph.cli.stopping import stoppable

if TYPE_CHECKING:
    from hopgraph.syncing import Digests

DEBOUNCE = 1_000
"""Milliseconds for which changes are collected into one sync."""
RETRY = 10.0
"""Seconds after which a sync that failed is tried again, if not for the files."""


def run_sync(
    name: str,
    paths: Sequence[Path],
    exclude: Sequence[str],
    *,
    strict: bool,
    replace: bool,
    watch: bool,
    as_json: bool,
) -> None:
    """Make an index equal to files; with `watch`, until a signal.

    Raises:
        Exit: Files could not be read.
        HopgraphError: As for `sync_index`; later ones are printed if watching, and the sync is tried again.
    """
    from hopgraph.syncing import Digests

    digests = Digests()

    def sync(*, quiet: bool = False) -> None:
        _sync(name, paths, exclude, digests, strict=strict, replace=replace, as_json=as_json, quiet=quiet)

    if not watch:
        sync()
        return
    from hopgraph.watching import changes
    from inference.errors import HopgraphError, InputError

    with suppress(typer.Exit):
        sync()
    note("hopgraph: watching for changes; ctrl-C ends it")
    retry, said = inf, ""

    def due() -> bool:
        return monotonic() >= retry

    for _ in changes(paths, DEBOUNCE, due):
        try:
            with suppress(typer.Exit):
                sync(quiet=True)
            retry, said = inf, ""
        except HopgraphError as error:
            # What is wrong with the files only they can change; a server comes back, another build ends.
            retry = inf if isinstance(error, InputError) else monotonic() + RETRY
            if str(error) != said:
                note(f"hopgraph: {error}")
            said = str(error)
    note(f"hopgraph: stopped watching; index {name} is complete")


def _sync(
    name: str,
    paths: Sequence[Path],
    exclude: Sequence[str],
    digests: Digests,
    *,
    strict: bool,
    replace: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Sync once, and report it; with `quiet` only if something has changed."""
    from hopgraph.sources import find_sources
    from hopgraph.syncing import sync_index

    sources = find_sources(paths, exclude=exclude, strict=strict)
    with stoppable("run the same command again to resume"), telling() as (_, tell, tell_files):
        synced = sync_index(
            name,
            paths,
            sources,
            digests=digests,
            strict=strict,
            replace=replace,
            progress=tell,
            reading=tell_files,
        )
    if synced.changed or not quiet:
        report(synced.built, sources, [*sources.failed, *synced.failed], synced=synced, as_json=as_json)
