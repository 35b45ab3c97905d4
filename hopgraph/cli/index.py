"""`hopgraph index` and `hopgraph search`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hopgraph.cli import completion
from hopgraph.cli.errors import note, print_json
from hopgraph.cli.on_ray import Ray, connected
from hopgraph.cli.options import AsJson
from hopgraph.cli.stopping import stoppable

if TYPE_CHECKING:
    from rich.console import Console

    from hopgraph.cli.progress import Progress as Shown
    from hopgraph.sources import Sources
    from stores.collect import Built, Progress
    from stores.index import Hit, Index

SHOWN = 10
"""Maximum number of duplicates and empty texts listed; `--json` lists all."""
PREVIEW = 300


def index(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Passages as .jsonl or .jsonl.gz; or txt, md, html, pdf, csv; or folders of these.", show_default=False
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
            metavar="CODE", help="Language of the texts, such as de, for stemming and sentences. Default: en."
        ),
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Number of parts of a large index; as before, or 1.", show_default=False),
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
    terminal, or with --replace.
    """
    from hopgraph.sources import Sources, find_sources, read_sources
    from inference.errors import InputError
    from stores import build
    from stores.manifest import index_command

    given = " ".join(shlex.quote(str(path)) for path in files or [])
    usage = f"hopgraph index {given} --name {name or 'mine'}" if given else index_command(name or "mine")
    if not name:
        raise InputError("--name is missing", hint=usage)
    if (bool(files) + bool(remove) + (rebuild or reshard is not None)) != 1 or (add and not files):
        raise InputError("give one of: files (with or without --add), --remove ID, --rebuild, --reshard N", hint=usage)
    if shards is not None and (add or not files):
        raise InputError("--shards requires files, without --add", hint="--reshard N changes an existing index")
    if replace and (add or not files):
        raise InputError("--replace requires files and can't be combined with --add", hint=usage)
    if ray is not None and remove:
        raise InputError("--ray: can't be combined with --remove, which encodes nothing")
    sources = find_sources(files or []) if files else Sources()
    with (
        stoppable("run the same command again to resume"),
        connected(Ray(ray) if ray else None) as cluster,
        _telling() as (shown, tell),
    ):
        workers, passages = None, read_sources(sources.files)
        if cluster is not None:
            from hopgraph.cluster.indexing import RayWorkers

            workers = RayWorkers(cluster, name, note)
            passages = workers.read_sources(sources.files)
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
    hint = "" if remove else _language_hint(built)
    if as_json:
        found = {"files": len(sources.files), "skipped": dict(sources.skipped)}
        print_json(_summary(built) | found | ({"hint": hint} if hint else {}))
        return
    _print_summary(built, sources)
    if hint:
        note(f"  {hint}")


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
            help="hybrid, dense (by meaning), sparse (by words) or bridge (hybrid, and what the best hits name).",
            autocompletion=completion.modes,
        ),
    ] = "hybrid",
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
            help="Retrieve four times as many, and keep the most relevant by the configured reranker.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Search an index, and show the rank of each passage in both halves of the search."""
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


@contextmanager
def _telling() -> Iterator[tuple[Shown, Progress]]:
    """Progress bars, and the store's progress callback that updates them."""
    from hopgraph.cli.progress import progress

    titles = {"read": "Reading", "encode": "Encoding", "store": "Storing"}
    with progress() as shown:
        yield shown, lambda stage, done, total: shown.tell(titles[stage], done, total)


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


def _language_hint(built: Built) -> str:
    """Whether the texts fit the index's language and encoder, by its first passages."""
    from stores.index import open_index
    from stores.languages import guess_language, language_hint

    first = next(open_index(built.manifest.name).passages(), [])
    guessed = guess_language(passage.text for passage in first)
    return language_hint(built.manifest.language, guessed, built.manifest.encoder)


def _summary(built: Built) -> dict[str, Any]:
    manifest = built.manifest
    return {
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
    }


def _print_summary(built: Built, sources: Sources) -> None:
    from rich.console import Console

    from nodes.kit.rendering import counted

    console, warn = _printer(Console()), _printer(Console(stderr=True))
    manifest = built.manifest
    cut = f" (of {counted(manifest.articles, 'article')})" if manifest.articles != manifest.passages else ""
    parts = f" in {manifest.shards:,} shards" if manifest.shards > 1 else ""
    console(
        f"Index {manifest.name}: {counted(manifest.passages, 'passage')}{cut}{parts}, {built.size / 1e6:,.1f} MB, "
        f"{built.seconds:,.1f} s"
    )
    console(
        f"  encoded {built.encoded:,} with {manifest.encoder}; {manifest.passages - built.encoded:,} already encoded"
    )
    if sources.skipped:
        console(f"  {sources}")
    if built.replaces:
        gone = f": {built.removed:,} removed (`--add` keeps them)" if built.removed else ""
        console(f"  replaces the index of {counted(built.replaces, 'passage')}{gone}")
    elif built.replaced or built.removed:
        console(f"  replaced {built.replaced:,}, removed {built.removed:,}")
    for what, remark, places in (
        ("duplicate id", ", only the first passage of each was kept", built.duplicates),
        ("empty text", "", built.empties),
    ):
        if places:
            warn(f"  {counted(len(places), what)}{remark}:", style="yellow")
            for place in places[:SHOWN]:
                warn(f"    {place}", style="yellow")
            if len(places) > SHOWN:
                warn(f"    ... and {len(places) - SHOWN:,} more (--json lists all)", style="yellow")


def _rows(opened: Index, hits: list[Hit]) -> list[dict[str, Any]]:
    passages = opened.get([hit.id for hit in hits])
    return [
        {**asdict(hit), "found_by": hit.found_by, "text": passage.text, "metadata": dict(passage.metadata)}
        for hit, passage in zip(hits, passages, strict=True)
    ]


def _print_hits(opened: Index, hits: list[Hit]) -> None:
    from rich.console import Console

    from stores.index import reasons

    console = _printer(Console())
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
        if passage.metadata:
            fields = ", ".join(f"{name}: {_short(value)}" for name, value in list(passage.metadata.items())[:SHOWN])
            console(f"   {fields}", style="dim")
        preview = passage.text if len(passage.text) <= PREVIEW else passage.text[:PREVIEW] + "…"
        console(f"   {preview}")


def _short(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else text[:59] + "…"


def _printer(console: Console) -> Callable[..., None]:
    """Prints text literally: without markup and control characters."""
    from rich.text import Text

    from nodes.kit.rendering import plain

    def out(line: str, style: str = "") -> None:
        indent = line[: len(line) - len(line.lstrip(" "))]
        console.print(Text(indent + plain(line), style=style), soft_wrap=not console.is_terminal)

    return out
