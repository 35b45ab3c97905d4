"""The `hopgraph` command. Heavy imports happen inside the commands, so that `--help` is quick."""

from __future__ import annotations

import sys

import typer

from hopgraph.cli.index import index, search
from hopgraph.cli.serve import serve

__all__ = ["app", "main"]

app = typer.Typer(
    name="hopgraph",
    help="Answer multi-hop questions over your own documents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(index)
app.command()(search)
app.command()(serve)


def main() -> None:
    """Run the command line; errors a user can cause are printed without a traceback.

    Exit codes: 0 done (an unanswerable question is an answer), 1 a run failed, 2 wrong input or use, 3 the model's
    endpoint can't be used (the run can be resumed), 130 stopped by ctrl-C.
    """
    from inference.errors import HopgraphError

    try:
        app()
    except HopgraphError as error:
        print(f"hopgraph: {error.message}", file=sys.stderr)  # noqa: T201
        if error.hint:
            print(f"  {error.hint}", file=sys.stderr)  # noqa: T201
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
