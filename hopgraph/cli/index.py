"""`hopgraph index` and `hopgraph search`."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hopgraph.cli import completion
from hopgraph.cli.errors import note, print_json
from hopgraph.cli.index_report import printer, report, telling
from hopgraph.cli.on_ray import Ray, connected
from hopgraph.cli.options import AsJson
from hopgraph.cli.stopping import stoppable

if TYPE_CHECKING:
    from hopgraph.cli.progress import Progress as Shown
    from stores.collect import Built
    from stores.index import Hit, Index

PREVIEW = 300
SHOWN = 10
"""Fields of a passage's metadata that are shown; `--json` has all."""


def index(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Passages as .jsonl or .jsonl.gz; or txt, md, html, pdf, docx, pptx, xlsx, epub, csv, tsv; or folders "
            "of these.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str,
        typer.Option("--name", "-n", help="Name of the index.", show_default=False, autocompletion=completion.indexes),
    ] = "",
    add: Annotated[
        bool, typer.Option("--add", help="Add to the index; passages with the same id are replaced.")
    ] = False,
    remove: Annotated[
        list[str] | None,
        typer.Option("--remove", metavar="ID|FILE", help="Remove a passage, an article or a file; may be repeated."),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace an index of other content without confirmation.")
    ] = False,
    rebuild: Annotated[
        bool,
        typer.Option("--rebuild", help="Rebuild the index from its own passages, such as after a change of encoder."),
    ] = False,
    language: Annotated[
        str | None,
        typer.Option(
            metavar="CODE",
            help="Language of the texts, such as de. Default: the index's own; en for a new one.",
        ),
    ] = None,
    sync: Annotated[
        bool,
        typer.Option("--sync", help="Make the index equal to the files: read new and changed ones, remove the others."),
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="With --sync: repeat it whenever files change, until ctrl-C.")
    ] = False,
    exclude: Annotated[
        list[str] | None,
        typer.Option("--exclude", metavar="PATTERN", help="Skip files of folders, as in .gitignore; may be repeated."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Change nothing if a file can't be read. Default: index the others.")
    ] = False,
    shards: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Number of shards. Default: the index's own; for a new one, one for every 500,000 passages.",
            show_default=False,
        ),
    ] = None,
    reshard: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Rebuild the index in N shards; vectors are kept.", show_default=False),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Encode and store on a Ray cluster: HOST:PORT, auto or local.", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Build an index of files, or add to one with --add.

    The same command resumes an interrupted build. An index of other content is replaced after confirmation at the
    terminal, or with --replace. A file that can't be read is reported, and the exit code is then 5.
    """
    from hopgraph.reading import Reading
    from hopgraph.sources import Sources, find_sources
    from inference.errors import InputError
    from stores import build
    from stores.manifest import index_command

    given = " ".join(shlex.quote(str(path)) for path in files or [])
    usage = f"hopgraph index {given} --name {name or 'mine'}" if given else index_command(name or "mine")
    if not name:
        raise InputError("--name is missing", hint=usage)
    if (bool(files) + bool(remove) + (rebuild or reshard is not None)) != 1 or ((add or sync) and not files):
        given_one = "give one of: files (with --add or --sync, or neither), --remove ID, --rebuild, --reshard N"
        raise InputError(given_one, hint=usage)
    if add and sync:
        raise InputError("give one of: --add, --sync", hint=usage)
    if shards is not None and (add or sync or not files):
        hint = "--reshard N changes an existing index"
        raise InputError("--shards requires files, without --add and --sync", hint=hint)
    if replace and (add or not files):
        raise InputError("--replace requires files and can't be combined with --add", hint=usage)
    if ray is not None and (remove or sync):
        raise InputError("--ray: can't be combined with --remove and --sync")
    if watch and (not sync or as_json):
        raise InputError("--watch requires --sync and can't be combined with --json", hint=f"{usage} --sync --watch")
    if sync and language is not None:
        raise InputError(
            "--language: can't be combined with --sync",
            hint="build the index without --sync first; it keeps its language",
        )
    if sync:
        from hopgraph.cli.syncing import run_sync

        run_sync(name, files or [], exclude or [], strict=strict, replace=replace, watch=watch, as_json=as_json)
        return
    sources = find_sources(files, exclude=exclude or [], strict=strict) if files else Sources()
    with (
        stoppable("run the same command again to resume"),
        connected(Ray(ray) if ray else None) as cluster,
        telling() as (shown, tell, tell_files),
    ):
        workers = None
        reading = Reading(sources.files, strict=strict, progress=tell_files)
        passages = reading.read()
        if cluster is not None:
            from hopgraph.cluster.indexing import RayWorkers

            workers = RayWorkers(cluster, name, note)
            passages = reading.read(workers.reader(sources.files))
        if rebuild or reshard is not None:
            built = build.rebuild_index(name, shards=reshard, workers=workers, progress=tell, language=language)
        elif remove:
            built = build.remove_from_index(name, remove, progress=tell)
        elif add:
            built = build.add_to_index(name, passages, workers=workers, progress=tell, language=language)
        else:
            ask = None if replace else _replacing(name, shown)
            built = build.build_index(
                name, passages, shards=shards, workers=workers, progress=tell, confirm=ask, language=language
            )
    report(built, sources, [*sources.failed, *reading.failed], as_json=as_json)


def search(
    query: Annotated[str, typer.Argument(help="The query.")],
    name: Annotated[
        str,
        typer.Option("--index", "-i", help="Index to search.", show_default=False, autocompletion=completion.indexes),
    ],
    k: Annotated[int, typer.Option("-k", min=1, help="Number of passages.")] = 5,
    mode: Annotated[
        str,
        typer.Option(
            "--mode",
            help="dense (by meaning), sparse (by words), hybrid (both) or bridge (hybrid, and passages that its best "
            "hits name).",
            autocompletion=completion.modes,
        ),
    ] = "bridge",
    where: Annotated[
        str | None,
        typer.Option(
            help="Search only passages whose metadata meet this, such as 'year >= 2020 and author = \"Lee\"'."
        ),
    ] = None,
    rerank: Annotated[
        bool,
        typer.Option(
            "--rerank",
            help="Retrieve four times as many passages, and keep those the configured cross-encoder scores highest.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Search an index, and show each passage's rank by meaning (dense) and by words (sparse)."""
    from inference.errors import InputError
    from stores.index import MODES, Mode, open_index

    chosen: dict[str, Mode] = {m: m for m in MODES}
    if mode not in chosen:
        raise InputError(f"--mode: unknown mode {mode!r}", hint=f"modes: {', '.join(MODES)}")
    if not query.strip():
        raise InputError("the query is empty", hint=f'hopgraph search "..." --index {name}')
    opened = open_index(name)
    found: dict[str, Any] = {"index": name, "query": query, "mode": mode} | ({"where": where} if where else {})
    if rerank:
        from stores.reranking import search_reranked

        reranked = search_reranked(opened, query, k, chosen[mode], where)
        hits, scores = reranked.hits, reranked.scores
        if reranked.problem:
            note(f"{reranked.problem}; the search's order was kept")
        found["reranked"] = {
            "model": scores.model if scores else None,
            "tokens": scores.tokens if scores else 0,
            "truncated": scores.truncated if scores else 0,
            "seconds": round(reranked.seconds, 3),
            "problem": reranked.problem,
        }
    else:
        hits = opened.search(query, k, chosen[mode], where)
    if as_json:
        print_json(found | {"hits": _rows(opened, hits)})
    else:
        _print_hits(opened, hits)


def _replacing(name: str, shown: Shown) -> Callable[[Built], None]:
    """Callback that asks before an index of other content is replaced."""

    def ask(built: Built) -> None:
        from hopgraph.cli.checks import confirm
        from nodes.kit.rendering import counted

        there = f"index {name!r} has {counted(built.replaces, 'passage')}, {built.removed:,} of them not in these files"
        with shown.paused():
            confirm(
                f"{there}. Replace it?",
                refused=f"{there}; it was not changed",
                hint="`--replace` replaces it, `--add` adds the files to it",
            )

    return ask


def _rows(opened: Index, hits: list[Hit]) -> list[dict[str, Any]]:
    passages = opened.get([hit.id for hit in hits])
    return [
        {
            **asdict(hit),
            "found_by": hit.found_by,
            "text": passage.text,
            "page": passage.page,
            "headings": list(passage.headings),
            "metadata": dict(passage.metadata),
        }
        for hit, passage in zip(hits, passages, strict=True)
    ]


def _print_hits(opened: Index, hits: list[Hit]) -> None:
    from rich.console import Console

    from hopgraph.views.texts import place_of
    from stores.index import reasons

    console = printer(Console())
    if not hits:
        console("Nothing found.")
    found = zip(hits, reasons(hits), opened.get([hit.id for hit in hits]), strict=True)
    for number, (hit, why, passage) in enumerate(found, start=1):
        ranks = ", ".join(
            f"{half} {f'#{rank}' if rank else '-'}"
            for half, rank in (("meaning", hit.dense_rank), ("words", hit.sparse_rank))
        )
        ranks = ranks if hit.named_in is None else why
        ranks += "" if hit.relevance is None else f", relevance {hit.relevance:.4f}"
        console(f"{number}. {passage.title or '(no title)'}", style="bold")
        console(f"   {hit.id}  score {hit.score:.4f}  {ranks}", style="dim")
        if place := place_of(passage):
            console(f"   {place}", style="dim")
        if passage.metadata:
            fields = ", ".join(f"{name}: {_short(value)}" for name, value in list(passage.metadata.items())[:SHOWN])
            console(f"   {fields}", style="dim")
        preview = passage.text if len(passage.text) <= PREVIEW else passage.text[:PREVIEW] + "…"
        console(f"   {preview}")


def _short(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else text[:59] + "…"
