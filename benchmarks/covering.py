"""Which tests run which lines: `mutation.py` tries a mutant on the tests that run the changed line.

Recorded by coverage.py while the tests run once. What runs outside of a test, as constants and decorators do when a
module is imported, may matter to every test. Code in processes that a test starts is not seen.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import coverage
import pytest


class Recorder:
    """A plugin of pytest that records the tests of each line, and their seconds."""

    def __init__(self, tree: Path, to: Path) -> None:
        """
        Args:
            tree: The lines of Python files under it are recorded, tests left out.
            to: A JSON file: see `write`.
        """
        self.tree, self.to = tree.resolve(), to
        self.seconds: dict[str, float] = {}
        self.coverage = coverage.Coverage(
            data_file=None, config_file=False, include=[f"{self.tree}/*"], omit=[f"{self.tree}/tests/*"], messages=False
        )
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Lines are the test's while it runs, its fixtures included."""
        self.coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self.coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds up set-up, call and teardown."""
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration

    def write(self) -> None:
        """Write the file, and record no more."""
        self.coverage.stop()
        data = self.coverage.get_data()
        lines = {
            str(Path(file).relative_to(self.tree)): data.contexts_by_lineno(file) for file in data.measured_files()
        }
        self.to.write_text(json.dumps({"lines": lines, "seconds": self.seconds}), "utf-8")


@dataclass(frozen=True)
class Covering:
    """The tests of each line."""

    root: Path
    lines: Mapping[str, Mapping[str, Sequence[str]]]
    """By module and line: ids of tests, and "" if it runs outside of them."""
    seconds: Mapping[str, float]

    @classmethod
    def read(cls, root: Path, path: Path) -> Covering:
        """From the recorder's file."""
        return cls(root, **json.loads(path.read_text("utf-8")))

    def of(self, module: str, start: tuple[int, int]) -> list[str] | None:
        """Ids of the tests that run the code at a line and column, the quick ones first; None: any test may matter."""
        known = self.lines.get(module, {})
        first, last, called = _around((self.root / module).read_text("utf-8"), start)
        found = {test for number in range(first, last + 1) for test in known.get(str(number), ())}
        if called:
            found.discard("")  # made when the module is imported, run later
        return None if "" in found else sorted(found, key=self.seconds.__getitem__)

    def share(self, tests: Sequence[str]) -> float:
        """The part of all tests' seconds that these take, 0 to 1."""
        return sum(self.seconds[test] for test in tests) / (sum(self.seconds.values()) or 1.0)


def _around(source: str, start: tuple[int, int]) -> tuple[int, int, bool]:
    """First and last line of the innermost statement, and whether they are the body of a lambda.

    Of a statement with a body, only the lines before that count.
    """
    line, _ = start
    spans = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Lambda) and _holds(node.body, start):
            spans.append((node.body.lineno, node.body.end_lineno or line, True))
        elif isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            if node.lineno <= line <= last:
                spans.append((node.lineno, last, False))
    return min(spans, key=lambda span: (span[1] - span[0], not span[2]), default=(line, line, False))


def _holds(node: ast.expr, start: tuple[int, int]) -> bool:
    return (node.lineno, node.col_offset) <= start < (node.end_lineno or 0, node.end_col_offset or 0)
