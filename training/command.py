"""Command line shared by all trainers: data folder, output, and errors without a traceback."""

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
    from training.fitting import Schedule

WEIGHTS = Path(__file__).parents[1] / "inference" / "heads"
"""Folder of the shipped weights."""


def parser(module: str, description: str) -> argparse.ArgumentParser:
    """A parser for `python -m training.<module>`."""
    return argparse.ArgumentParser(prog=f"python -m training.{module}", description=description)


def trainer(module: str, description: str, weights: str) -> tuple[argparse.ArgumentParser, Any]:
    """A parser with the common options, and its group of options that replace training.

    Args:
        module: In this folder.
        description: For `--help`.
        weights: File of shipped weights, the default output.
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
    """Train and write the weights; returns the lines to print.

    Args:
        options: Options of a `trainer`.
        rows: Description of the training data.
        train: Returns the weights.
        schedule: The default schedule; the options may change its epochs.
    """
    start = time.perf_counter()
    save_weights(options.to, train(replace(schedule, epochs=options.epochs or schedule.epochs)))
    seconds, size = time.perf_counter() - start, options.to.stat().st_size
    return f"{rows}, {seconds:.0f} s\n{options.to}: {size / 1e6:.1f} MB\n"


def guarded(work: Callable[[], str], missing: str = "training needs torch: pip install -e '.[train]'") -> int:
    """Print the result of `work`, or its error; returns the exit code.

    Args:
        work: Returns the text to print.
        missing: Message if a package is not installed.
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
