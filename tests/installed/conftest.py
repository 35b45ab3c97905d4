"""The places that the tests run in, each made once; and how long each block of the documentation took."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installed.documentation import SECONDS
from tests.installed.places import ROOT, Place, copy_tree, make_place, private_folder


@pytest.fixture(scope="session")
def clone() -> Iterator[Place]:
    """A clone after `make setup`."""
    folder = private_folder()
    try:
        place = make_place(folder)
        copy_tree(place.folder)
        place.run("make", "setup")
        yield place
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def wheel_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from what a clone would hold."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    copy_tree(source)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", built, "."]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (file,) = built.glob("*.whl")
    return file


@pytest.fixture(scope="session")
def base(wheel_file: Path) -> Iterator[Place]:
    """The wheel in an environment without any extra, which stays so; the demo is indexed."""
    yield from _with_wheel(wheel_file)


@pytest.fixture(scope="session")
def wheel(wheel_file: Path) -> Iterator[Place]:
    """The same for the documentation's commands, which install extras, with the files that they name."""
    for place in _with_wheel(wheel_file):
        if (ROOT / "examples").is_dir():
            shutil.copytree(ROOT / "examples", place.folder / "examples")
        yield place


def _with_wheel(file: Path) -> Iterator[Place]:
    folder = private_folder()
    try:
        place = make_place(folder)
        place.run(sys.executable, "-m", "venv", ".venv")
        place.run("python", "-m", "pip", "install", "--quiet", "--no-compile", file)
        place.python("from hopgraph import demo; demo._index(); demo._take_over_pairs()")
        yield place
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Seconds of each block, and all of them together."""
    rows = [
        (name.removeprefix(SECONDS), float(str(value)))
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, value in report.user_properties
        if name.startswith(SECONDS)
    ]
    if rows:
        terminalreporter.section("seconds of the documentation's blocks")
        for name, seconds in sorted(rows, key=lambda row: -row[1]):
            terminalreporter.line(f"{seconds:7.1f}  {name}")
        terminalreporter.line(f"{sum(seconds for _, seconds in rows):7.1f}  together")
