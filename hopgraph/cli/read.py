"""`hopgraph read`: CompactRAG's offline stage."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hopgraph import loop
from hopgraph.cli import completion
from hopgraph.cli.errors import note, print_json
from hopgraph.cli.on_ray import Ray, connected
from hopgraph.cli.options import settings_of
from hopgraph.cli.stopping import stoppable

if TYPE_CHECKING:
    from hopgraph.knowledge.report import Report
    from stores.readings import Reading


def read(
    index: Annotated[
        str,
        typer.Option("--index", "-i", help="Index to read.", show_default=False, autocompletion=completion.indexes),
    ] = "",
    model: Annotated[
        str | None, typer.Option(help="Model that extracts the pairs. Default: the one that answers.")
    ] = None,
    coverage_repair: Annotated[
        bool, typer.Option("--coverage-repair", help="One more call for entities that no pair mentions.")
    ] = False,
    ids: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="Read this passage only; may be repeated.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of passages to read now.")] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Retry passages that failed, too.")] = False,
    anew: Annotated[bool, typer.Option("--anew", help="Discard all earlier readings and start over.")] = False,
    export: Annotated[
        Path | None, typer.Option(help="Write the knowledge base to this JSON Lines file; nothing is read.")
    ] = None,
    load: Annotated[
        Path | None, typer.Option("--import", help="Import a knowledge base from such a file; no model is called.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of the reader; may be repeated.")
    ] = None,
    perfect: Annotated[
        Path | None,
        typer.Option(
            metavar="QUESTIONS",
            help="Simulation: a perfect reader, built from these questions' gold decompositions, replaces the model.",
        ),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Read on a Ray cluster: HOST:PORT, auto or local.", show_default=False),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="With --ray: number of parts. Default: one per CPU of the cluster.")
    ] = None,
    dataset: Annotated[str, typer.Option(help="With --perfect: the questions' dataset, as for `eval`.")] = "own",
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as one JSON object.")] = False,
) -> None:
    """Extract the question-answer pairs that CompactRAG answers from. The same command resumes an interrupted one."""
    from hopgraph.knowledge.report import report
    from inference.errors import InputError

    if not index:
        raise InputError("--index is missing", hint="hopgraph read --index NAME")
    if workers is not None and ray is None:
        raise InputError("--workers: requires --ray")
    if ray is not None and (export or load or perfect):
        raise InputError("--ray: can't be combined with --export, --import or --perfect")
    if export is not None and load is not None:
        raise InputError("--export: can't be combined with --import")
    if export is not None:
        from hopgraph.knowledge.pair_files import export_pairs

        export_pairs(index, export)
        made = report(index)
    elif load is not None:
        from hopgraph.knowledge.pair_files import import_pairs

        taken = import_pairs(index, load)
        made = report(index)
        if not as_json:
            known = taken.total - taken.readings - taken.skipped
            print(
                f"{taken.readings:,} of {taken.total:,} readings imported; {known:,} already present; "
                f"{taken.skipped:,} skipped: their passages are not in the index"
            )
    else:
        values = settings_of(settings or [], index=index, model=model or None, coverage_repair=coverage_repair or None)
        with _reader(perfect, dataset, index):
            made = loop.run(_read(values, ids, limit, retry_failed, anew, Ray(ray, workers) if ray else None))
    if as_json:
        print_json(asdict(made))
    else:
        print_report(made)


@contextmanager
def _reader(questions: Path | None, dataset: str, index: str) -> Iterator[None]:
    """Replace the model by a perfect reader if there are questions to build one from."""
    if questions is None:
        yield
        return
    from hopgraph.evaluation.datasets import read_questions
    from hopgraph.evaluation.simulated import Simulation
    from hopgraph.simulation.playing import playing

    print(Simulation(), file=sys.stderr)
    with playing(Simulation(), read_questions(questions, dataset), index):
        yield


async def _read(
    values: dict[str, Any], ids: list[str] | None, limit: int | None, retry_failed: bool, anew: bool, ray: Ray | None
) -> Report:
    from hopgraph.cli.checks import check_endpoint, check_index
    from hopgraph.contexts import checked
    from hopgraph.knowledge.reading import read_index
    from nodes.compactrag.context import ReaderContext

    context = checked(ReaderContext, values)
    check_index(context.index)
    await check_endpoint(context.model)
    # A second `--anew` would discard what this command has read.
    how_to_resume = f"run the same command {'without --anew' if anew else 'again'} to resume"
    with stoppable(how_to_resume), connected(ray) as cluster, _progress() as (start, tell):
        readers = None
        if cluster is not None and ray is not None:
            from hopgraph.cluster.reading import RayReaders

            readers = RayReaders(cluster, ray.workers, note)
        return await read_index(
            context,
            ids=ids,
            limit=limit,
            retry_failed=retry_failed,
            anew=anew,
            on_start=start,
            on_reading=tell,
            readers=readers,
        )


@contextmanager
def _progress() -> Iterator[tuple[Callable[[int], None], Callable[[Reading], None]]]:
    """Show passages, rate, tokens and time left on stderr."""
    from hopgraph.cli.progress import progress

    with progress() as shown:
        total: int | None = None
        done = tokens = failed = 0

        def start(passages: int) -> None:
            nonlocal total
            total = passages
            shown.tell("Reading", 0, total)

        def tell(reading: Reading) -> None:
            nonlocal done, tokens, failed
            done += 1
            tokens += reading.prompt_tokens + reading.completion_tokens
            failed += bool(reading.cause)
            note = f"{tokens:,} tokens" + (f", {failed:,} failed" if failed else "")
            shown.tell("Reading", done, total, note)

        yield start, tell


def print_report(report: Report) -> None:
    """Print a report as text."""
    from hopgraph.evaluation.simulated import is_simulated
    from nodes.kit.rendering import counted

    left = f"; {report.left:,} left: run the same command again to read them" if report.left else ""
    print(f"Knowledge base of {report.index}: {report.read:,} of {report.passages:,} passages read{left}")
    per = report.pairs_per_passage
    spread = f"{per['mean']:.1f} a passage, {per['least']:.0f} to {per['most']:.0f}" if report.read else "nothing read"
    print(f"  {counted(report.pairs, 'pair')} ({spread}); {counted(report.without_pairs, 'passage')} without one")
    if not report.pairs:
        print("  the knowledge base is empty: CompactRAG can't answer from it", file=sys.stderr)
    if report.coverage is not None:
        print(f"  entities mentioned by a pair: {report.covered:,} of {report.entities:,} ({report.coverage:.1%})")
    for what, counts in (("pairs left out", report.dropped), ("passages failed", report.failures)):
        if counts:
            print(f"  {what}: " + ", ".join(f"{count:,} {cause.replace('_', ' ')}" for cause, count in counts.items()))
    for what, cost in (("reading", report.tokens), ("coverage repair", report.coverage_tokens)):
        if cost.calls:
            print(f"  {what}: {counted(cost.calls, 'call')}, {cost.prompt:,} + {cost.completion:,} tokens")
    if simulated := [name for name in report.models if is_simulated(name)]:
        print(f"  simulated, without a model: {', '.join(simulated)}")
    if report.repairs:
        print(f"  {report.repairs:,} of the calls were repairs of unusable replies")
    if report.now.get("passages"):
        now = report.now
        print(
            f"  now: {counted(round(now['passages']), 'passage')}, {now['tokens']:,.0f} tokens "
            f"in {now['seconds']:,.1f} s ({now['passages'] / max(now['seconds'], 0.01):.2f} passages a second)"
        )
