"""Mutants tried on the tests that run their line.

Those within functions are tried in a process that has imported the project and collected its tests: it forks for each
mutant, and the fork exchanges the code of the module's functions for that of the mutated text. What runs when a module
is imported can't be exchanged so; those mutants are tried on all tests, each in a process that imports the module anew.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from covering import Covering, Recorder
from mutants import Job, Mutant, Outcome, Runner, limit_cpu, run_all

_UNUSABLE = 9
"""Exit code of a fork whose code can't be exchanged."""


def try_all(runners: Sequence[Runner], tried: Sequence[Mutant], files: Sequence[str], name: str) -> Iterator[Outcome]:
    """The outcomes of mutants, as they come. One whose line no test runs survives.

    Args:
        runners: Where to run tests.
        tried: The mutants.
        files: All tests, as files or folders relative to the tree.
        name: Of the package, for errors.

    Raises:
        SystemExit: The tests fail without a mutant.
    """
    read, write = os.pipe()
    workers = []
    for place, runner in enumerate(runners):
        pid = os.fork()
        if not pid:
            os.close(read)
            own = {number: tried[number] for number in range(place, len(tried), len(runners))}
            try:
                runner.run_tests(files, [recorder := Recorder(runner.tree, runner.covering),
                                         _Loop(runner, own, recorder, write)])  # fmt: skip
            finally:
                os._exit(0)
        workers.append(pid)
    os.close(write)
    left = dict(enumerate(tried))
    usual: tuple[float, float] | None = None
    try:
        with os.fdopen(read) as lines:
            for line in lines:
                number, code, seconds, cpu, failed = json.loads(line)
                if number is None:
                    usual = (seconds, cpu) if code == 0 else None
                else:
                    yield Outcome(left.pop(number), code, seconds, cpu, failed)
    finally:
        for pid in workers:
            os.waitpid(pid, 0)
    if usual is None:
        raise SystemExit(f"the tests of {name} fail without a mutant:\n{runners[0].log.read_text('utf-8', 'replace')}")
    yield from run_all(runners, [_job(one, files, 1.0, usual) for one in left.values()])


def _job(mutant: Mutant, tests: Sequence[str], share: float, usual: tuple[float, float]) -> Job:
    """A run with three times the CPU time, and ten times the time, that its tests usually take."""
    seconds, cpu = usual
    return Job(mutant, tests, 30 + 10 * share * seconds, 10 + 3 * share * cpu)


class _Loop:
    """A plugin of pytest whose loop over the tests forks: once for all of them, then for each mutant."""

    def __init__(self, runner: Runner, tried: dict[int, Mutant], recorder: Recorder, write: int) -> None:
        self.runner, self.tried, self.recorder, self.write = runner, tried, recorder, write
        self.functions: dict[str, list[FunctionType]] = defaultdict(list)
        self.failed = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Tells each outcome: number, exit code, seconds, CPU seconds, failed test; the number of no mutant is None."""
        for one in gc.get_objects():
            if type(one) is FunctionType and one.__code__.co_filename.startswith(str(self.runner.tree)):
                self.functions[one.__code__.co_filename].append(one)
        code, *usual = self._forked(session.items, None, 600, 600)
        self.recorder.coverage.stop()
        session.config.pluginmanager.unregister(self.recorder)
        self._tell(None, code, *usual)
        if code != 0:
            return True
        items = {item.nodeid: item for item in session.items}
        covering = Covering.read(self.runner.tree, self.runner.covering)
        for number, mutant in self.tried.items():
            tests = covering.of(mutant.path, mutant.start)
            if not tests:
                if tests is not None:
                    self._tell(number, 0, 0.0, 0.0)
                continue
            job = _job(mutant, tests, covering.share(tests), (usual[0], usual[1]))
            code, *took = self._forked([items[test] for test in tests], mutant, job.limit, job.cpu)
            if code != _UNUSABLE:
                self._tell(number, code, *took)
        return True

    def _tell(self, number: int | None, code: int | None, seconds: float, cpu: float) -> None:
        failed = self._note.read_text("utf-8") if code in (1, 3) else ""
        os.write(self.write, json.dumps([number, code, seconds, cpu, failed]).encode() + b"\n")

    @property
    def _note(self) -> Path:
        return self.runner.tree.with_name(f"{self.runner.tree.name}-failed")

    def _forked(
        self, items: Sequence[pytest.Item], mutant: Mutant | None, limit: float, cpu: float
    ) -> tuple[int | None, float, float]:
        """Exit code, None where a limit was exceeded; seconds, and seconds of CPU time."""
        began = time.monotonic()
        pid = os.fork()
        if not pid:
            self._run(items, mutant, cpu)
        ended = 0
        while not ended and time.monotonic() - began < limit:
            ended, status, usage = os.wait4(pid, os.WNOHANG)
            time.sleep(0.0 if ended else 0.005)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # with what the tests may have started
        if not ended:
            _, status, usage = os.wait4(pid, 0)
        code = os.WEXITSTATUS(status) if ended and os.WIFEXITED(status) else None
        return code, time.monotonic() - began, usage.ru_utime + usage.ru_stime

    def _run(self, items: Sequence[pytest.Item], mutant: Mutant | None, cpu: float) -> None:
        code = 3
        try:
            os.setsid()
            limit_cpu(cpu)
            if mutant is not None and not self._swap(mutant):
                os._exit(_UNUSABLE)
            for item, following in zip(items, [*items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self.failed:
                    break
            if mutant is None:
                self.recorder.write()
            self._note.write_text(self.failed, "utf-8")
            code = 1 if self.failed else 0
        except BaseException as error:
            self._note.write_text(repr(error), "utf-8")
        finally:
            os._exit(code)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes the first test that fails."""
        if report.failed and not self.failed:
            self.failed = f"FAILED {report.nodeid}"

    def _swap(self, mutant: Mutant) -> bool:
        """Give the module's functions the code of the mutated text; False if that can't be done."""
        file = str(self.runner.tree / mutant.path)
        made: dict[tuple[str, int], list[CodeType]] = defaultdict(list)
        for code in _nested(compile(mutant.text(self.runner.tree), file, "exec")):
            made[_key(code)].append(code)
        pairs = [(one, made[_key(one.__code__)]) for one in self.functions[file]]
        if not pairs or any(len(new) != 1 or new[0].co_freevars != one.__code__.co_freevars for one, new in pairs):
            return False  # such as two lambdas in one line
        for one, new in pairs:
            one.__code__ = new[0]
        return True


def _key(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)
