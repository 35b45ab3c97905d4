"""The `hopgraph` command. Heavy imports happen inside the commands, so that `--help` is quick."""

from __future__ import annotations

import os
import sys

import typer

from hopgraph.cli.ask import ask, resume
from hopgraph.cli.doctor import doctor
from hopgraph.cli.eval import evaluate
from hopgraph.cli.graph import graph
from hopgraph.cli.index import index, search
from hopgraph.cli.listing import lists, rm
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
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (index, read, search, ask, resume, trace, report, studio, serve, doctor, graph):
    app.command()(command)
app.command("eval")(evaluate)
app.add_typer(prompts, name="prompts")
app.add_typer(lists, name="list")
app.add_typer(rm, name="rm")


def main() -> None:
    """Run the command line of this process."""
    # Several questions are worked on at a time. Threads that numpy shares each small product out to only get in their
    # way: an answer of CompactRAG's extractor took 85 ms of CPU with two of them, 52 without.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(run_app())


def run_app(words: list[str] | None = None) -> int:
    """Run a command line; errors a user can cause are printed without a traceback.

    Args:
        words: The arguments; default: those of this process.

    Returns:
        0 done (an unanswerable question is an answer), 1 a run failed, 2 wrong input or use, 3 the endpoint can't
        be used (the run can be resumed), 4 it waits for a person to decide, 130 stopped by ctrl-C.
    """
    from inference.errors import HopgraphError

    try:
        app(words)
    except HopgraphError as error:
        print(f"hopgraph: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"  {error.hint}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except SystemExit as leave:
        return leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    return 0
