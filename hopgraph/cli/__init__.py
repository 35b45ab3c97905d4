"""The `hopgraph` command. Heavy imports are inside the commands, so that `--help` is fast."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from hopgraph.cli.ask import ask, resume
from hopgraph.cli.doctor import doctor
from hopgraph.cli.eval import EvalCommand, evaluate
from hopgraph.cli.graph import graph
from hopgraph.cli.index import index, search
from hopgraph.cli.listing import lists, rm
from hopgraph.cli.mcp import mcp
from hopgraph.cli.prompts import prompts
from hopgraph.cli.read import read
from hopgraph.cli.report import report
from hopgraph.cli.serve import serve
from hopgraph.cli.studio import studio
from hopgraph.cli.trace import trace

__all__ = ["app", "main", "run_app"]

app = typer.Typer(
    name="hopgraph",
    help="Answer multi-hop questions over your own documents.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        from hopgraph import __version__

        print(f"hopgraph {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Answer multi-hop questions over your own documents."""
    if any(name.upper().startswith("HOPGRAPH_") for name in os.environ):
        from inference.settings import unknown_variables

        for problem in unknown_variables():
            print(f"hopgraph: {problem}", file=sys.stderr, flush=True)


for command in (index, read, search, ask, resume, trace, report, studio, serve, mcp, doctor, graph):
    app.command()(command)
app.command("eval", cls=EvalCommand)(evaluate)
app.add_typer(prompts, name="prompts")
app.add_typer(lists, name="list")
app.add_typer(rm, name="rm")


def main() -> None:
    """Run the command line of this process."""
    # Questions run concurrently; splitting small matrix products over numpy's threads only slows them down: an answer
    # of CompactRAG's extractor took 85 ms of CPU with two threads, 52 ms with one.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(run_app())


def run_app(words: list[str] | None = None) -> int:
    """Run a command line; errors a user can cause are printed without a traceback.

    Args:
        words: The arguments; default: those of this process.

    Returns:
        0 success (including `unanswerable`), 1 a run failed, 2 wrong input or usage, 3 the endpoint can't be used (the
        run can be resumed), 4 the run waits for a person's decision, 5 files could not be read (the others are
        indexed), 130 stopped by ctrl-C, 143 by SIGTERM.
    """
    from hopgraph.cli.errors import Leave, reported

    words = sys.argv[1:] if words is None else words
    try:
        with reported(words):
            code = app(words, prog_name="hopgraph", standalone_mode=False)
    except Leave as leave:
        return leave.code
    except SystemExit as leave:
        return leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    return code if isinstance(code, int) else 0
