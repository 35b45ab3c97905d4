"""Progress and report of `hopgraph index`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from hopgraph.cli.errors import note, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from hopgraph.cli.progress import Progress as Shown
    from hopgraph.reading import Reading
    from hopgraph.sources import Sources, Unread
    from hopgraph.syncing import Synced
    from stores.collect import Built, Progress

SHOWN = 10
"""Maximum number of duplicates, empty texts and skipped files listed; `--json` lists all."""
SOME_UNREAD = 5
"""Exit code: the index is complete but for files that could not be read."""


@contextmanager
def telling() -> Iterator[tuple[Shown, Progress, Callable[[Reading], None]]]:
    """Progress bars, and the callbacks of the build and of reading that update them."""
    from hopgraph.cli.progress import progress

    titles = {"encode": "Encoding", "store": "Storing"}
    with progress() as shown:

        def tell(stage: str, done: int, total: int | None) -> None:
            if stage in titles:
                shown.tell(titles[stage], done, total)

        def tell_files(reading: Reading) -> None:
            shown.tell("Reading files", reading.done, len(reading.files), f"{reading.passages:,} passages")

        yield shown, tell, tell_files


def report(
    built: Built, sources: Sources, failed: Sequence[Unread], *, synced: Synced | None = None, as_json: bool = False
) -> None:
    """Print what was done.

    Raises:
        Exit: With `SOME_UNREAD`, if files could not be read.
    """
    hint = _language_hint(built) if built.read else ""
    if as_json:
        print_json(_row(built, sources, failed, synced) | ({"hint": hint} if hint else {}))
    else:
        _print(built, sources, failed, synced)
        if hint:
            note(f"  {hint}")
    if failed:
        raise typer.Exit(SOME_UNREAD)


def _language_hint(built: Built) -> str:
    """Whether the texts fit the index's language and encoder, by its first passages."""
    from stores.index import open_index
    from stores.languages import guess_language, language_hint

    first = next(open_index(built.manifest.name).passages(), [])
    guessed = guess_language(passage.text for passage in first)
    return language_hint(built.manifest.language, guessed, built.manifest.encoder)


def _row(built: Built, sources: Sources, failed: Sequence[Unread], synced: Synced | None) -> dict[str, Any]:
    manifest = built.manifest
    row = {
        "index": manifest.name,
        "hash": manifest.hash,
        "passages": manifest.passages,
        "articles": manifest.articles,
        "shards": manifest.shards,
        "read": built.read,
        "duplicates": built.duplicates,
        "empties": built.empties,
        "replaces": built.replaces,
        "replaced": built.replaced,
        "removed": built.removed,
        "encoded": built.encoded,
        "encoder": manifest.encoder,
        "language": manifest.language,
        "seconds": round(built.seconds, 2),
        "bytes": built.size,
        "files": len(sources.files),
        "skipped": dict(sources.skipped),
        "skipped_files": sources.passed,
        "failed": [asdict(unread) for unread in failed],
    }
    if synced is not None:
        row["sync"] = {
            "new": synced.new,
            "replaced": synced.replaced,
            "vanished": synced.vanished,
            "unchanged": synced.unchanged,
        }
    return row


def _print(built: Built, sources: Sources, failed: Sequence[Unread], synced: Synced | None) -> None:
    from rich.console import Console

    from nodes.kit.rendering import counted

    console, warn = printer(Console()), printer(Console(stderr=True))
    manifest = built.manifest
    cut = f" (of {counted(manifest.articles, 'article')})" if manifest.articles != manifest.passages else ""
    parts = f" in {manifest.shards:,} shards" if manifest.shards > 1 else ""
    size = f", {built.size / 1e6:,.1f} MB" if built.size else ""
    console(f"Index {manifest.name}: {counted(manifest.passages, 'passage')}{cut}{parts}{size}, {built.seconds:,.1f} s")
    if synced is None or synced.changed:
        known = manifest.passages - built.encoded
        console(f"  encoded {built.encoded:,} with {manifest.encoder}; {known:,} already encoded")
    if sources.skipped or failed:
        console(f"  {sources.summary(len(failed) - len(sources.failed))}")
    if synced is not None:
        console(f"  {sync_line(synced)}")
    elif built.replaces:
        gone = f": {built.removed:,} removed (`--add` keeps them)" if built.removed else ""
        console(f"  replaces the index of {counted(built.replaces, 'passage')}{gone}")
    elif built.replaced or built.removed:
        console(f"  replaced {built.replaced:,}, removed {built.removed:,}")
    for what, remark, places in (
        ("duplicate id", ", only the first passage of each was kept", built.duplicates),
        ("empty text", "", built.empties),
        ("skipped file", "", sources.passed),
    ):
        if places:
            warn(f"  {counted(len(places), what)}{remark}:", style="yellow")
            for place in places[:SHOWN]:
                warn(f"    {place}", style="yellow")
            if len(places) > SHOWN:
                warn(f"    ... and {len(places) - SHOWN:,} more (--json lists all)", style="yellow")
    if failed:
        warn(f"  {counted(len(failed), 'file')} could not be read:", style="red")
        for unread in failed:
            warn(f"    {unread.reason}" + (f" ({unread.hint})" if unread.hint else ""), style="red")


def sync_line(synced: Synced) -> str:
    """What a sync did, in one line."""
    counts = {
        "new": len(synced.new),
        "changed": len(synced.replaced),
        "vanished": len(synced.vanished),
        "unchanged": synced.unchanged,
    }
    return "files: " + ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)


def printer(console: Console) -> Callable[..., None]:
    """Prints text literally: without markup and control characters."""
    from rich.text import Text

    from nodes.kit.rendering import plain

    def out(line: str, style: str = "") -> None:
        indent = line[: len(line) - len(line.lstrip(" "))]
        console.print(Text(indent + plain(line), style=style), soft_wrap=not console.is_terminal)

    return out
