"""The command line that all trainers share: where the data are, what to write, and errors without a traceback."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from inference.errors import HopgraphError

__all__ = ["WEIGHTS", "guarded", "parser", "written"]

WEIGHTS = Path(__file__).parents[1] / "inference"
"""Folder of the shipped weights."""


def parser(name: str, description: str, weights: Path) -> argparse.ArgumentParser:
    """A parser with the options that every trainer has: `--data`, `--to`, `--epochs`."""
    result = argparse.ArgumentParser(prog=f"python -m training.{name}", description=description)
    result.add_argument("--data", type=Path, required=True, help="folder with train/ and the data sets")
    result.add_argument("--to", type=Path, default=weights, help="file of weights to write")
    result.add_argument("--epochs", type=float, help="passes over the data")
    return result


def guarded(report: Callable[[], str]) -> int:
    """Print what a function reports, or what went wrong; gives the exit code."""
    try:
        text = report()
    except ModuleNotFoundError as error:
        sys.stderr.write(f"{error}\ntraining needs torch: pip install -e '.[train]'\n")
        return 2
    except HopgraphError as error:
        sys.stderr.write(f"{error.message}\n{error.hint}\n")
        return error.exit_code
    sys.stdout.write(text)
    return 0


def written(to: Path, rows: str, seconds: float) -> str:
    """What a training prints at its end."""
    return f"{rows}, {seconds:.0f} s\n{to}: {to.stat().st_size / 1e6:.1f} MB\n"
