"""A small evaluation: questions with passages of their own, PRISM with a scripted model."""

from __future__ import annotations

import json

import pytest

from hopgraph.cli import run_app

CONTEXTS = [
    {"title": "X", "text": "X is a film by Ann Lee."},
    {"title": "Ann Lee", "text": "Ann Lee was born in Paris."},
    {"title": "Noise", "text": "Bananas are yellow."},
]
LINES = {
    "analyzer": {"subquestions": ["Who directed X?"]},
    "selector": {"evidence": ["1.0"]},
    "adder": {"evidence": ["2.0"]},
    "generator": {"answer": "Paris"},
}
NODES = ["analyzer", "selector", "adder", "selector", "adder", "generator"]


def row(number: int, **fields):
    """A question, whose answer is right every other time."""
    return {
        "id": f"q{number}",
        "question": f"Where was the director of X born, number {number}?",
        "answers": ["Paris"] if number % 2 else ["Rome"],
        "type": "bridge" if number % 3 else "comparison",
        "hops": 2,
        "gold_titles": ["X", "Ann Lee"],
        "contexts": CONTEXTS,
        **fields,
    }


@pytest.fixture
def hopgraph(capfd, home):
    """Runs a command line; gives exit code, stdout and stderr."""

    def run(*words: str):
        capfd.readouterr()  # what a killed process left the server to say
        code = run_app([str(word) for word in words])
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run


@pytest.fixture
def questions(tmp_path):
    """Writes a file of questions."""

    def write(rows, name="questions.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(item) + "\n" for item in rows))
        return str(path)

    return write


def results(folder):
    """Lines of a run's results, by variant and id."""
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    found = {(line["variant"], line["id"]): line for line in lines}
    assert len(found) == len(lines)
    return found


def comparable(line):
    """A result without what differs from one run to the next: its times and its thread."""
    return {**line, "thread": "", "cost": {**line["cost"], "seconds": 0}}
