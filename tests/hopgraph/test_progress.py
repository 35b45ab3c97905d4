"""Progress of long commands where stderr is no terminal."""

from __future__ import annotations

from types import SimpleNamespace

from hopgraph.cli import progress as module
from hopgraph.cli.progress import Progress, progress, progress_line


def test_off_a_terminal_a_plain_line_is_printed_now_and_then(monkeypatch, capsys):
    now = iter([0.0, 4.0, 10.0, 15.0, 20.0])
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(now)))
    with progress() as shown:
        for done in (0, 40, 100, 150, 200):
            shown.tell("Encoding", done, 1_000_000, "7 tokens")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "Encoding: 100 of 1,000,000, 10/s, 27.8 h left, 7 tokens",
        "Encoding: 200 of 1,000,000, 10/s, 27.8 h left, 7 tokens",
    ]


def test_a_line_without_a_total_or_a_rate_says_what_is_known():
    assert progress_line("Reading", 1200, None, 0) == "Reading: 1,200"
    assert progress_line("Storing", 10, 30, 0.5) == "Storing: 10 of 30, 30.0/min, 40 s left"
    with Progress(None).paused():
        pass
