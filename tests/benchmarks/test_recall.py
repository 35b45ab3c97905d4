"""The recall benchmark, on a handful of passages."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


TOWNS = [
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


def recall(tmp_path, name, questions, *options):
    folder = tmp_path / "data" / name
    folder.mkdir(parents=True)
    corpus = [
        {"id": town, "title": town, "text": f"{town} is a town.", "sentences": [f"{town} is a town."]} for town in TOWNS
    ]
    for what, rows in (("corpus", corpus), ("questions", questions)):
        (folder / f"{what}.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    return subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "recall.py", tmp_path / "data", "--only", name, *options],
        env={"HOPGRAPH_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_table_counts_gold_passages_among_the_first_hits(tmp_path):
    questions = [
        {"question": "Where is Ghent?", "gold_ids": ["Ghent"]},
        {"question": "Tell me of Hull", "gold_ids": ["Hull", "nowhere"]},
        {"question": "Unanswerable", "gold_ids": []},
    ]
    done = recall(tmp_path, "popqa", questions)
    row = next(line for line in done.stdout.splitlines() if line.startswith("popqa"))
    assert row.split() == ["popqa", "12", "2", *["0.750/0.750"] * 5, "0.500", "0.500"]


def test_a_step_is_searched_for_with_the_earlier_answers(tmp_path):
    steps = [
        {"question": "Where does the river flow?", "answer": "Ghent", "support_id": "nowhere"},
        {"question": "#1 >> mayor", "answer": "Anna", "support_id": "Ghent"},
        {"question": "Where was #2 born?", "answer": "Hull"},
    ]
    question = {"question": "?", "answers": ["Hull"], "gold_ids": ["Ghent"], "decomposition": steps}
    done = recall(tmp_path, "musique", [question], "--steps")
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("musique")]
    assert ["musique", "2", "sparse", *["0.500"] * 5] in rows
    assert [row[2] for row in rows] == ["dense", "sparse", "hybrid", "bridge"]


def test_a_set_without_decompositions_has_no_steps_to_search_for(tmp_path):
    done = recall(tmp_path, "nq", [{"question": "Where is Ghent?", "gold_ids": ["Ghent"]}], "--steps")
    assert done.returncode == 2
    assert "nq has no steps" in done.stderr
