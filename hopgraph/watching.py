"""Waits for changes of files."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hopgraph.signals import EXITS
from hopgraph.sources import IGNORE_FILE

_EVERY = 500
"""Milliseconds after which the first change is reported, whether there was one or not (one before watching began)."""


def changes(paths: Sequence[Path], debounce: int, due: Callable[[], bool]) -> Iterator[None]:
    """Once at the beginning, and then whenever files below the paths have changed. Ends on ctrl-C or SIGTERM.

    Hidden files and what is below hidden folders do not count.

    Args:
        paths: Files and folders.
        debounce: Milliseconds for which changes are collected into one.
        due: Asked every half second: whether to go on as if files had changed.
    """
    from watchfiles import watch

    stop = threading.Event()
    roots = [(path if path.is_dir() else path.parent).resolve() for path in paths]

    def counts(_: object, changed: str) -> bool:
        inside = next((Path(changed).relative_to(root) for root in roots if Path(changed).is_relative_to(root)), None)
        parts = inside.parts if inside is not None and inside.name != IGNORE_FILE else ()
        return inside is not None and not any(part.startswith(".") for part in parts)

    with _stopped_by_signals(stop):
        begun = False
        for found in watch(
            *roots,
            watch_filter=counts,
            debounce=debounce,
            stop_event=stop,
            rust_timeout=_EVERY,
            yield_on_timeout=True,
        ):
            if (found or not begun or due()) and not stop.is_set():
                begun = True
                yield


@contextmanager
def _stopped_by_signals(stop: threading.Event) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # A background process ignores ctrl-C, and keeps doing so.
    before = {number: old for number in EXITS if (old := signal.getsignal(number)) is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, lambda *_: stop.set())
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
