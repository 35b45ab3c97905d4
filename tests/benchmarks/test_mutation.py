"""The command of mutation testing, on a project of one function."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(__file__).parents[2] / "benchmarks" / "mutation.py"
SOURCE = '''"""Thresholds."""

from __future__ import annotations


def accepted(score: float | None, threshold: float) -> bool:
    while score is not None:
        return score >= threshold
    return False
'''
TEST = """from nodes.one.gate import accepted


def test_gate():
    assert accepted(0.7, 0.5)
    assert not accepted(0.3, 0.5)
    assert not accepted(None, 0.5)
"""
AT_THE_THRESHOLD = TEST + "    assert accepted(0.5, 0.5)\n"


@pytest.fixture
def project(tmp_path):
    """A project with one package, in git."""
    files = {"nodes/one/gate.py": SOURCE, "graphs/one.py": '"""A graph."""\n', "tests/nodes/one/test_gate.py": TEST}
    for name, text in {**files, "pyproject.toml": "[tool.pytest.ini_options]\n"}.items():
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "project" / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path / "project", check=True)
    return tmp_path / "project"


def run(project, *words):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, COMMAND, "one", "--root", project, "--work", project.parent / "work", *words],
        capture_output=True,
        text=True,
        env=environment,
    )


def figures(done):
    """Of the table's only row: mutants, tried, killed, timed out, survived, equivalent, score."""
    assert "| one |" in done.stdout, done.stderr
    return done.stdout.splitlines()[2].removeprefix("| one | ").removesuffix(" |").split(" | ")


def test_survivors_are_named_and_tried_again_with_new_tests(project):
    first = run(project)
    assert figures(first) == ["5", "5", "4", "0", "1", "0", "0.80"]
    assert first.returncode == 1
    assert "nodes/one/gate.py:8\n- return score >= threshold\n+ return score > threshold\n" in first.stdout
    assert "below 0.9: one 0.80" in first.stderr
    assert (project / "nodes/one/gate.py").read_text() == SOURCE
    (project / "tests/nodes/one/test_gate.py").write_text(AT_THE_THRESHOLD)
    second = run(project)
    assert (second.returncode, figures(second)[2:5]) == (0, ["5", "0", "0"])
    sampled = figures(run(project, "--sample", "3", "--seed", "1"))
    assert sampled[:3] == ["5", "3", "3"]
    assert sampled[-1] == "1.00 (0.44 to 1.00)", "of three"


def test_a_mutant_that_no_test_can_notice_is_left_out_with_its_reason(project):
    (project / "benchmarks").mkdir()
    row = 'module = "nodes/one/gate.py"\nline = "return score >= threshold"\nmutant = "return score > threshold"\n'
    (project / "benchmarks/equivalent.toml").write_text(f'[[accepted]]\n{row}reason = "as the paper has it"\n')
    assert "accepted: as the paper has it" in run(project).stdout
    (project / "benchmarks/equivalent.toml").write_text(f'[[equivalent]]\n{row}reason = "scores are never equal"\n')
    done = run(project)
    assert figures(done) == ["5", "4", "4", "0", "0", "1", "1.00"]


def test_tests_that_fail_without_a_mutant_are_an_error(project):
    (project / "tests/nodes/one/test_gate.py").write_text(TEST.replace("0.7", "0.2"))
    done = run(project)
    assert done.returncode == 1
    assert "the tests of one fail without a mutant" in done.stderr
    assert "| one |" not in done.stdout


OTHER_SOURCE = '''"""What is made when the module is imported, two functions in one line, and one that no test runs."""

LIMIT = 5
BOTH = (lambda value: value + 1, lambda value: value)


def near(value: int) -> bool:
    return value < LIMIT


def unused(value: int) -> int:
    return value + 1
'''
OTHER_TEST = """from nodes.one.gate import BOTH, near


def test_all():
    assert near(4)
    assert not near(5)
    assert (BOTH[0](1), BOTH[1](1)) == (2, 1)
"""


def test_what_runs_on_import_is_tried_too_and_what_no_test_runs_survives(project):
    (project / "nodes/one/gate.py").write_text(OTHER_SOURCE)
    (project / "tests/nodes/one/test_gate.py").write_text(OTHER_TEST)
    done = run(project)
    assert figures(done) == ["10", "10", "7", "0", "3", "0", "0.70"]
    assert done.stdout.count("nodes/one/gate.py:12\n") == 3
    assert "the tests of" not in done.stderr
