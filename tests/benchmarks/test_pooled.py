"""The pooled corpus of a sample of questions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def made(tmp_path: Path, rows: list[dict], *options: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return subprocess.run(
        [
            sys.executable,
            ROOT / "benchmarks/pooled.py",
            tmp_path / "questions.jsonl",
            "--to",
            tmp_path / "to",
            *options,
        ],
        env={"HOPGRAPH_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def row(number: int, kind: str) -> dict:
    contexts = [{"title": "Everywhere", "text": "Shared."}, {"title": f"T{number}", "text": f"Gold of {number}."}]
    return {
        "id": str(number),
        "question": f"q{number}?",
        "type": kind,
        "gold_titles": [f"T{number}"],
        "contexts": contexts,
    }


def test_the_corpus_is_the_sampled_questions_passages_each_once_and_gold_ids_are_of_it(tmp_path):
    rows = [row(number, "bridge" if number < 15 else "comparison") for number in range(20)]
    done = made(tmp_path, rows, "--limit", "8")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("8 questions, 9 passages")
    asked, corpus = read(tmp_path / "to/questions.jsonl"), read(tmp_path / "to/corpus.jsonl")
    assert [one["type"] for one in asked].count("comparison") == 2
    texts = {passage["id"]: passage["text"] for passage in corpus}
    assert all([texts[key] for key in one["gold_ids"]] == [f"Gold of {one['id']}."] for one in asked)
    assert sorted(texts.values()) == sorted(["Shared.", *(f"Gold of {one['id']}." for one in asked)])


def test_questions_without_passages_need_an_index(tmp_path):
    done = made(tmp_path, [{"id": "a", "question": "Where?"}])
    assert done.returncode == 2
    assert "question a comes without passages" in done.stderr
    assert "Traceback" not in done.stderr
