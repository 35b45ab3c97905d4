"""Mutants within functions, tried in a process that has imported the project and collected its tests already.

It forks for each mutant, and the fork exchanges the code of the module's functions for that of the mutated text. What
runs when a module is imported can't be exchanged so: those mutants are left to `mutants.run_all`.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator
from mutants import Job, Outcome, Runner, limit_cpu, run_all

_UNUSABLE = 9
"""Exit code of a fork whose code can't be exchanged."""


def run_swapped(runners: Sequence[Runner], jobs: Sequence[Job], files: Sequence[str]) -> Iterator[Outcome]:
    """The outcomes of all jobs, as they come.

    Args:
        runners: Where to run tests.
        jobs: What to run: files as a whole if the mutant's code runs when it is imported, else single tests.
        files: All tests.
    """
    single = [number for number, job in enumerate(jobs) if job.mutant and job.tests and list(job.tests) != list(files)]
    read, write = os.pipe()
    workers = []
    for place, runner in enumerate(runners):
        pid = os.fork()
        if not pid:
            os.close(read)
            own = {number: jobs[number] for number in single[place :: len(runners)]}
            try:
                runner.run_tests(files, [_Loop(runner.tree, own, write)] if own else [])
            finally:
                os._exit(0)
        workers.append(pid)
    os.close(write)
    left = dict(enumerate(jobs))
    try:
        with os.fdopen(read) as lines:
            for line in lines:
                told = json.loads(line)
                job = left.pop(told["number"])
                yield Outcome(job.mutant, told["code"], told["seconds"], told["cpu"], told["failed"])
    finally:
        for pid in workers:
            os.waitpid(pid, 0)
    yield from run_all(runners, list(left.values()))


class _Loop:
    """A plugin of pytest whose loop over the tests forks for each job, and runs the job's tests alone."""

    def __init__(self, tree: Path, jobs: Mapping[int, Job], write: int) -> None:
        self.tree, self.jobs, self.write = tree, jobs, write
        self.functions: dict[str, list[FunctionType]] = defaultdict(list)
        self.failed = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Tells the outcome of each job, one a line of JSON."""
        for one in gc.get_objects():
            if type(one) is FunctionType and one.__code__.co_filename.startswith(str(self.tree)):
                self.functions[one.__code__.co_filename].append(one)
        items = {item.nodeid: item for item in session.items}
        if self._forked(list(items.values()), Job(None, (), 600, 600))[0] != 0:
            return True  # in forks the tests fail without a mutant
        for number, job in self.jobs.items():
            code, seconds, cpu = self._forked([items[test] for test in job.tests], job)
            if code != _UNUSABLE:
                failed = (self.tree.with_name("failed")).read_text() if code == 1 else ""
                row = {"number": number, "code": code, "seconds": seconds, "cpu": cpu, "failed": failed}
                os.write(self.write, json.dumps(row).encode() + b"\n")
        return True

    def _forked(self, items: Sequence[pytest.Item], job: Job) -> tuple[int | None, float, float]:
        """Exit code, None after the time limit; seconds, and seconds of CPU time."""
        began = time.monotonic()
        pid = os.fork()
        if not pid:
            self._run(items, job)
        ended = 0
        while not ended and time.monotonic() - began < job.limit:
            ended, status, usage = os.wait4(pid, os.WNOHANG)
            time.sleep(0.0 if ended else 0.005)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # with what the tests may have started
        if not ended:
            _, status, usage = os.wait4(pid, 0)
        code = os.WEXITSTATUS(status) if ended and os.WIFEXITED(status) else None
        return code, time.monotonic() - began, usage.ru_utime + usage.ru_stime

    def _run(self, items: Sequence[pytest.Item], job: Job) -> None:
        code = 3
        try:
            os.setsid()
            limit_cpu(job.cpu)
            if job.mutant is not None and not self._swap(job):
                os._exit(_UNUSABLE)
            for item, following in zip(items, [*items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self.failed:
                    break
            self.tree.with_name("failed").write_text(self.failed)
            code = 1 if self.failed else 0
        finally:
            os._exit(code)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes the first test that fails."""
        if report.failed and not self.failed:
            self.failed = f"FAILED {report.nodeid}"

    def _swap(self, job: Job) -> bool:
        """Give the module's functions the code of the mutated text; False if it has no such functions."""
        assert job.mutant is not None
        file = self.tree / job.mutant.path
        text = mutate_code(file.read_text("utf-8"), get_operator(job.mutant.operator)(), job.mutant.occurrence)
        made: dict[tuple[str, int], list[CodeType]] = defaultdict(list)
        for code in _nested(compile(str(text), str(file), "exec")):
            made[_key(code)].append(code)
        pairs = [(one, made[_key(one.__code__)]) for one in self.functions[str(file)]]
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
