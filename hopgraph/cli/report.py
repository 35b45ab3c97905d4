"""`hopgraph report`: evaluation runs as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["report"]


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders of evaluation runs.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The page. Default: report.html in the first folder.")
    ] = None,
) -> None:
    """Write evaluation runs as one HTML page without a network: table, charts, errors, every question side by side."""
    from hopgraph.evaluation.report import read_runs, write_report

    print(write_report(read_runs(runs), out or runs[0] / "report.html"))
