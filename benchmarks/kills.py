"""Random kills over all methods: no call lost, only calls in flight repeated, the same answers.

    python benchmarks/kills.py [KILLS] [--log FILE] [--postgres URL]

Processes that run every graph side by side, two threads each, are killed with SIGKILL at random moments, up to five
times; `hopgraph resume` resumes one of the interrupted threads, another process the rest. The model is scripted and its
server logs every call; the response cache is off. The index, the checkpoints and the small models are real. With
`--log`, outcomes are kept in a file: after Ctrl-C or a crash the same command continues from it.
"""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.kills import Report, kill_at_random
from tests.small import GRAPHS


def main(
    kills: Annotated[int, typer.Argument(help="Number of kills, those in the log included.")] = 200,
    log: Annotated[Path | None, typer.Option(help="JSON Lines of outcomes, to continue from.")] = None,
    postgres: Annotated[
        str | None, typer.Option(help="URL of a database for the checkpoints; default: a file.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random moments.")] = 0,
) -> None:
    """Print the counts; exit code 1 if anything was lost, repeated or different."""
    started = time.time()
    report = Report()

    def show(so_far: Report) -> None:
        nonlocal report
        report = so_far
        print(f"\r{report.kills} of {kills} kills", end="", file=sys.stderr, flush=True)

    with contextlib.suppress(KeyboardInterrupt):
        report = kill_at_random(kills, seed, log, show, postgres)
    print(file=sys.stderr)
    print(f"graphs                                    {', '.join(GRAPHS)}")
    print(f"rounds                                    {report.rounds:>7,}")
    print(f"kills                                     {report.kills:>7,}")
    print(f"threads                                   {report.threads:>7,}")
    print(f"threads cut off by a kill                 {report.interrupted:>7,}")
    print(f"  of them resumed by `hopgraph resume`    {len(report.by_command):>7,}")
    print(f"threads lost                              {len(report.lost):>7,}")
    print(f"threads with another result               {len(report.different):>7,}")
    print(f"model calls                               {report.calls:>7,}")
    print(f"calls in flight at a kill                 {report.in_flight:>7,}")
    print(f"  of them answered over 2 s before        {len(report.late):>7,}")
    print(f"calls made again                          {report.repeated:>7,}")
    print(f"committed calls made again                {len(report.committed_again):>7,}")
    print(f"minutes (of this command)                 {(time.time() - started) / 60:>7.1f}")
    for problem in report.problems:
        print(problem)
    raise typer.Exit(bool(report.problems))


if __name__ == "__main__":
    typer.run(main)
