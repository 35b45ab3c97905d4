"""Progress of long commands on stderr: bars on a terminal, a plain line every ten seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

EVERY = 10.0
"""Seconds between two lines if stderr is not a terminal."""


@dataclass
class _Stage:
    started: float
    first: int
    """Count at the first report."""
    reported: float
    task: TaskID | None = None


class Progress:
    """Stages of a command, each with its own count.

    Args:
        bars: rich's bars, or None if stderr is not a terminal.
    """

    def __init__(self, bars: Bars | None) -> None:
        self._bars = bars
        self._stages: dict[str, _Stage] = {}

    def tell(self, title: str, done: int, total: int | None, note: str = "") -> None:
        """Report the progress of a stage.

        Args:
            title: The stage, such as `Encoding`.
            done: Count done.
            total: Total count; None while unknown.
            note: Further figures, such as tokens used.
        """
        now = time.monotonic()
        stage = self._stages.get(title)
        if stage is None:
            stage = self._stages[title] = _Stage(now, done, now)
            if self._bars is not None:
                stage.task = self._bars.add_task(title, total=total, note="")
        rate = (done - stage.first) / (now - stage.started) if now > stage.started else 0.0
        if self._bars is not None and stage.task is not None:
            shown = "  ".join(filter(None, [_rate(rate), note]))
            self._bars.update(stage.task, completed=done, total=total, note=shown)
        elif self._bars is None and now - stage.reported >= EVERY:
            stage.reported = now
            print(progress_line(title, done, total, rate, note), file=sys.stderr, flush=True)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Hide the bars during a prompt at the terminal."""
        if self._bars is None:
            yield
            return
        self._bars.stop()
        try:
            yield
        finally:
            self._bars.start()


@contextmanager
def progress() -> Iterator[Progress]:
    """Progress within the block."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield Progress(None)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description:<9}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}", markup=False),  # may contain names chosen by the user
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=console) as bars:
        yield Progress(bars)


def progress_line(title: str, done: int, total: int | None, rate: float, note: str = "") -> str:
    """One line: count, total, rate, time left."""
    parts = [f"{title}: {done:,}" + (f" of {total:,}" if total is not None else "")]
    if rate > 0:
        parts.append(_rate(rate))
        if total is not None:
            parts.append(f"{_duration((total - done) / rate)} left")
    return ", ".join([*parts, *([note] if note else [])])


def _rate(rate: float) -> str:
    if not rate:
        return ""
    return f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s" if rate >= 1 else f"{60 * rate:.1f}/min"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
