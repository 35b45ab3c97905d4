"""Time and size of `hopgraph report` for many questions: a real run's results are repeated under new ids.

    hopgraph eval ... --out runs/small
    python benchmarks/report.py runs/small [--questions 10000]

Goals: under a minute for 10,000 questions, and a page of at most 25 MB.
"""

from __future__ import annotations

import json
import os
import re
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from hopgraph.evaluation.runs import read_runs
from hopgraph.views.report import write_report

LONGEST = 60.0
LARGEST = 25.0


def main(
    run: Annotated[Path, typer.Argument(help="Folder of an evaluation run.")],
    questions: Annotated[int, typer.Option(help="How many questions to report.")] = 10_000,
) -> None:
    """Print the report's time and the page's size; exit code 1 if a goal is missed."""
    with tempfile.TemporaryDirectory() as folder:
        large = Path(folder) / "large"
        lines, size = multiply(run, large, questions)
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
        print(f"{questions:,} questions, {lines:,} results, {size:,.0f} MB")
        started, cpu = time.perf_counter(), time.process_time()
        page = write_report(read_runs([large]), large / "report.html")
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        megabytes = page.stat().st_size / 1e6
        beside = sum(path.stat().st_size for path in (large / "report_files").iterdir()) / 1e6
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        print(f"report: {seconds:.1f} s ({cpu:.1f} s of CPU), peak memory {peak:,.0f} MB")
        print(f"page: {megabytes:.1f} MB; files beside it, read on demand: {beside:.0f} MB")
    if seconds > LONGEST or megabytes > LARGEST:
        print(f"more than {LONGEST:.0f} s or {LARGEST:.0f} MB", file=sys.stderr)
        raise SystemExit(1)


def multiply(run: Path, into: Path, count: int) -> tuple[int, float]:
    """Multiply a small run to `count` questions; returns the number of results and their megabytes."""
    into.mkdir()
    (into / "run.json").write_text((run / "run.json").read_text("utf-8"), "utf-8")
    rows = [json.loads(line) for line in (run / "questions.jsonl").read_text("utf-8").splitlines()]
    results: dict[str, list[str]] = {row["id"]: [] for row in rows}
    for line in (run / "results.jsonl").read_text("utf-8").splitlines():
        results[json.loads(line)["id"]].append(line)
    lines = 0
    with (
        (into / "questions.jsonl").open("w", encoding="utf-8") as asked,
        (into / "results.jsonl").open("w", encoding="utf-8") as made,
    ):
        for number in range(count):
            row = rows[number % len(rows)]
            new = f"{row['id']}-{number}"
            asked.write(json.dumps({**row, "id": new}, ensure_ascii=False) + "\n")
            for line in results[row["id"]]:
                made.write(re.sub(r'"id": "[^"]*"', f'"id": "{new}"', line, count=1) + "\n")
                lines += 1
    return lines, (into / "results.jsonl").stat().st_size / 1e6


if __name__ == "__main__":
    typer.run(main)
