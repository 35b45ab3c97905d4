"""`hopgraph report`: evaluation runs as one HTML page, or in the formats of other harnesses."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders of evaluation runs.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The page, or the folder of an export. Default: in the first run's folder."),
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="NAME", help="Variant to compare the others with. Default: the first one.")
    ] = None,
    export: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="Write the results in another harness's format: flashrag, hipporag."),
    ] = None,
) -> None:
    """Write evaluation runs as one self-contained HTML page: tables, charts, errors, all questions side by side."""
    from hopgraph.evaluation.runs import read_runs
    from hopgraph.views.report import write_report

    found = read_runs(runs)
    if against is not None:
        found.compare_with(against)
    if export is None:
        print(write_report(found, out or runs[0] / "report.html"))
        return
    from hopgraph.evaluation import exports

    for path in exports.export(found, export, out or runs[0] / f"export-{export}"):
        print(path)
