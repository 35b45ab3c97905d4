"""The recall benchmark, on a handful of passages."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_table_counts_gold_passages_among_the_first_hits(tmp_path):
    folder = tmp_path / "data" / "popqa"
    folder.mkdir(parents=True)
    towns = [
        "Aarhus",
        "Bergen",
        "Cadiz",
        "Dresden",
        "Evora",
        "Florence",
        "Ghent",
        "Hull",
        "Izmir",
        "Jena",
        "Kyoto",
        "Lyon",
    ]
    corpus = [
        {"id": town, "title": town, "text": f"{town} is a town.", "sentences": [f"{town} is a town."]} for town in towns
    ]
    questions = [
        {"question": "Where is Ghent?", "gold_ids": ["Ghent"]},
        {"question": "Tell me of Hull", "gold_ids": ["Hull", "nowhere"]},
        {"question": "Unanswerable", "gold_ids": []},
    ]
    for name, rows in (("corpus", corpus), ("questions", questions)):
        (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "recall.py", tmp_path / "data", "--only", "popqa"],
        env={"HOPGRAPH_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    row = next(line for line in done.stdout.splitlines() if line.startswith("popqa"))
    assert row.split() == ["popqa", "12", "2", *["0.750/0.750"] * 5, "0.500", "0.500"]
