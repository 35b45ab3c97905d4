"""The command line that all trainers share: where the data are, what to write, and errors without a traceback."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inference.errors import HopgraphError
from inference.heads.npz import save_weights
from inference.heads.trunk import Array

if TYPE_CHECKING:
    from training.layers import Schedule

__all__ = ["WEIGHTS", "guarded", "parser", "trained", "trainer"]

WEIGHTS = Path(__file__).parents[1] / "inference" / "heads"
"""Folder of the shipped weights."""


def parser(module: str, description: str) -> argparse.ArgumentParser:
    """A parser for `python -m training.<module>`."""
    return argparse.ArgumentParser(prog=f"python -m training.{module}", description=description)


def trainer(module: str, description: str, weights: str) -> tuple[argparse.ArgumentParser, Any]:
    """A parser with the options that every trainer has, and the group of those that say what to do instead of training.

    Args:
        module: In this folder.
        description: For `--help`.
        weights: File of shipped weights, which training replaces unless told otherwise.
    """
    result = parser(module, description)
    result.add_argument("--data", type=Path, required=True, help="folder with train/ and the data sets")
    result.add_argument("--to", type=Path, default=WEIGHTS / weights, help="file of weights to write")
    result.add_argument("--epochs", type=float, help="passes over the data")
    instead = result.add_mutually_exclusive_group()
    instead.add_argument("--evaluate", action="store_true", help="measure the shipped weights; trains nothing")
    return result, instead


def trained(
    options: argparse.Namespace, rows: str, train: Callable[[Schedule], Mapping[str, Array]], schedule: Schedule
) -> str:
    """Train, write the weights, and give the lines to print.

    Args:
        options: Of a `trainer`.
        rows: What is trained on, in words.
        train: Gives the weights.
        schedule: The usual one; the options may change its epochs.
    """
    start = time.perf_counter()
    save_weights(options.to, train(replace(schedule, epochs=options.epochs or schedule.epochs)))
    seconds, size = time.perf_counter() - start, options.to.stat().st_size
    return f"{rows}, {seconds:.0f} s\n{options.to}: {size / 1e6:.1f} MB\n"


def guarded(work: Callable[[], str], missing: str = "training needs torch: pip install -e '.[train]'") -> int:
    """Print what some work reports, or what went wrong; gives the exit code.

    Args:
        work: Gives the text to print.
        missing: What to say when a package is not installed.
    """
    try:
        text = work()
    except ModuleNotFoundError as error:
        sys.stderr.write(f"{error}\n{missing}\n")
        return 2
    except HopgraphError as error:
        sys.stderr.write(f"{error.message}\n{error.hint}\n")
        return error.exit_code
    sys.stdout.write(text)
    return 0
