"""Mutants of a module, and test runs against them: the parts of `mutation.py`.

cosmic-ray makes the mutants. Its own runner starts Python, and all libraries, once for each of them: seconds that our
tests do not take. Here one process has imported the libraries and forks for each mutant. A mutant is only ever written
to a copy of the tree, so that a run that is killed leaves nothing behind.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import hashlib
import importlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

_COMPARISONS = ("Eq_NotEq", "NotEq_Eq", "Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt",
                "Is_IsNot", "IsNot_Is")  # fmt: skip
_ARITHMETIC = ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Mul", "Mod_Mul", "Pow_Mul", "BitOr_BitAnd",
               "BitAnd_BitOr")  # fmt: skip
OPERATORS = (
    *(f"core/ReplaceComparisonOperator_{change}" for change in _COMPARISONS),
    *(f"core/ReplaceBinaryOperator_{change}" for change in _ARITHMETIC),
    *("core/ReplaceUnaryOperator_USub_UAdd", "core/ReplaceUnaryOperator_Delete_Not"),
    *("core/AddNot", "core/ReplaceTrueWithFalse", "core/ReplaceFalseWithTrue"),
    *("core/ReplaceAndWithOr", "core/ReplaceOrWithAnd"),
    *("core/ReplaceBreakWithContinue", "core/ReplaceContinueWithBreak", "core/ZeroIterationForLoop"),
    "core/NumberReplacer",
)
"""One change of the boundary and one of the direction for each comparison; numbers plus and minus 1."""
_LIBRARIES = ("pytest", "pytest_asyncio", "numpy", "langgraph.graph", "langgraph.checkpoint.sqlite.aio", "chromadb",
              "bm25s", "onnxruntime", "tokenizers", "aiohttp", "httpx", "typer", "rich.console", "jinja2", "uvloop",
              "spacy", "langchain_core.retrievers")  # fmt: skip
"""What the tests import and what starts no thread; fewer only make a run slower."""

_NO_BEHAVIOUR = frozenset({"places", "frozen", "kw_only", "maxsize", "strict"})
"""Arguments that are left alone: positions of a metric's columns (`Metric.places`), of which only the order counts,
what mypy checks of dataclasses, sizes of caches, and what `zip` asserts."""


@dataclass(frozen=True)
class Mutant:
    """One change of one line."""

    id: str
    """Digest of the module's text and the change: results of a module that has changed since don't count."""
    path: str
    line: int
    before: str
    """The line, without indentation."""
    after: str
    operator: str
    occurrence: int
    start: tuple[int, int]
    end: tuple[int, int]

    @property
    def key(self) -> tuple[str, str, str]:
        """What it is known by when other lines of its module change."""
        return self.path, self.before, self.after

    def text(self, root: Path) -> str:
        """The mutated module."""
        return str(mutate_code((root / self.path).read_text("utf-8"), get_operator(self.operator)(), self.occurrence))


def mutants(root: Path, path: str) -> list[Mutant]:
    """All mutants of one module, in the order of its lines.

    Type annotations, class keywords (`total=False`) and tests of `TYPE_CHECKING` are left alone: they are not run. So
    are arguments without behaviour (`_NO_BEHAVIOUR`).
    """
    source = (root / path).read_text("utf-8")
    skipped, tree, lines = _not_run(source), get_ast(source), source.splitlines()
    found = {}
    for name in OPERATORS:
        operator = get_operator(name)()
        spans = (span for node in ast_nodes(tree) for span in operator.mutation_positions(node))
        for occurrence, (start, end) in enumerate(spans):
            if any(first <= start and end <= last for first, last in skipped) or _is_unpacking(lines, start, name):
                continue
            text = mutate_code(source, operator, occurrence)
            if not text or not _compiles(text):
                continue
            old, new = _first_difference(source, text)
            key = hashlib.sha256(f"{path}\n{source}\n{text}".encode()).hexdigest()[:20]
            found[key] = Mutant(key, path, start[0], old, new, name, occurrence, start, end)
    return sorted(found.values(), key=lambda one: (one.line, one.after))


def _not_run(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    parts: list[ast.expr] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation:
            parts.append(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns:
            parts.append(node.returns)
        elif isinstance(node, ast.ClassDef):
            parts += [keyword.value for keyword in node.keywords]
        elif isinstance(node, ast.keyword) and node.arg in _NO_BEHAVIOUR:
            parts.append(node.value)
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            parts.append(node.test)
    return [((p.lineno, p.col_offset), (p.end_lineno or 0, p.end_col_offset or 0)) for p in parts]


def _is_unpacking(lines: Sequence[str], start: tuple[int, int], operator: str) -> bool:
    """Whether a star is no operator: `[*rows]`, `f(**fields)`, `def f(a, *, b)`."""
    if "_Mul_" not in operator and "_Pow_" not in operator:
        return False
    return lines[start[0] - 1][: start[1]].rstrip()[-1:] in ("", "(", "[", "{", ",")


def _compiles(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _first_difference(source: str, text: str) -> tuple[str, str]:
    pairs = zip(source.splitlines(), text.splitlines(), strict=False)
    return next(((old.strip(), new.strip()) for old, new in pairs if old != new), ("", ""))


def copy_tree(root: Path, to: Path) -> None:
    """A copy of what git knows or would add, without what it ignores."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=root, capture_output=True, text=True, check=True
    )
    shutil.rmtree(to, ignore_errors=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (root / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, to / name)


def preload() -> None:
    """Import the libraries that forked test runs share."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for name in _LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what is shared is collected by no test run


@dataclass(frozen=True)
class Job:
    """One test run."""

    mutant: Mutant
    tests: Sequence[str]
    """Files or ids of tests, relative to the tree."""
    limit: float
    """Seconds that the run may take."""
    cpu: float
    """Seconds of CPU time that it may take."""


@dataclass
class Outcome:
    """The end of one test run."""

    mutant: Mutant
    code: int | None
    """pytest's exit code; None if the run exceeded its time."""
    seconds: float
    cpu: float
    output: str

    @property
    def failed(self) -> str:
        """The first test that failed; "" if none was named."""
        lines = [line for line in self.output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return lines[0].split(" - ")[0] if lines else ""


@dataclass
class Runner:
    """Runs tests in a copy of the tree, in a forked process, one run at a time."""

    root: Path
    tree: Path
    """Its copy of the tree."""
    began: float = 0.0
    pid: int = 0
    mutant: Mutant | None = None
    limit: float = 0.0
    _clean: tuple[Path, str, int] | None = field(default=None)

    def start(self, job: Job) -> None:
        """Start the tests."""
        self.mutant, self.limit, self.began = job.mutant, job.limit, time.monotonic()
        file = self.tree / job.mutant.path
        source = file.read_text("utf-8")
        self._clean = (file, source, file.stat().st_mtime_ns)
        for stale in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            stale.unlink()
        file.write_text(job.mutant.text(self.tree), "utf-8")
        sys.stdout.flush()
        self.pid = os.fork()
        if not self.pid:
            self._child(job)

    def finished(self) -> Outcome | None:
        """How the run ended; None while it goes on. The tree is then as it was."""
        pid, status, usage = os.wait4(self.pid, os.WNOHANG)
        seconds = time.monotonic() - self.began
        late = not pid and seconds > self.limit
        if not pid and not late:
            return None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)  # with what the tests may have started
        if late:
            _, status, usage = os.wait4(self.pid, 0)
        if self._clean:
            file, source, modified = self._clean
            file.write_text(source, "utf-8")
            os.utime(file, ns=(modified, modified))
            self._clean = None
        output = self.log.read_text("utf-8", "replace")
        code = None if late or not os.WIFEXITED(status) else os.WEXITSTATUS(status)
        return Outcome(self.mutant, code, seconds, usage.ru_utime + usage.ru_stime, output)

    @property
    def covering(self) -> Path:
        """Which tests run which lines, for `Covering.read`."""
        return self.tree.with_name(f"{self.tree.name}-covering.json")

    @property
    def log(self) -> Path:
        """What the latest run printed."""
        return self.tree.with_name(f"{self.tree.name}.log")

    def _child(self, job: Job) -> None:
        try:
            os.setsid()
            limit_cpu(job.cpu)
            sys.dont_write_bytecode = True
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
            code = self.run_tests(job.tests, [])
        except BaseException as error:
            os.write(2, repr(error).encode())
            os._exit(3)
        os._exit(code)

    def run_tests(self, tests: Sequence[str], plugins: Sequence[object]) -> int:
        """Become a run of tests in the copy of the tree, and return pytest's exit code."""
        os.chdir(self.tree)
        log = os.open(self.log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        ours = {self.root, Path(__file__).parent, Path(__file__).parents[1]}
        sys.path[:] = [str(self.tree), *(place for place in sys.path if place and Path(place) not in ours)]
        os.environ["PYTHONPATH"] = str(self.tree)
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # the others take longer to load than the tests to run
        import pytest

        scratch = self.tree.with_name(f"{self.tree.name}-tmp")
        options = ["-x", "-q", "--tb=no", "-p", "no:cacheprovider", "-p", "pytest_asyncio.plugin"]
        code = int(pytest.main([*options, f"--basetemp={scratch}", *tests], plugins))
        sys.stdout.flush()
        return code


def limit_cpu(seconds: float) -> None:
    """End this process after so many seconds of CPU time."""
    whole = max(1, round(seconds))
    resource.setrlimit(resource.RLIMIT_CPU, (whole, whole))


def run_all(runners: Sequence[Runner], jobs: Iterable[Job]) -> Iterator[Outcome]:
    """The outcomes of all jobs, as they come; each runner works on one at a time."""
    waiting, busy, free = deque(jobs), list[Runner](), list(runners)
    while waiting or busy:
        while free and waiting:
            busy.append(free.pop())
            busy[-1].start(waiting.popleft())
        for runner in list(busy):
            if outcome := runner.finished():
                busy.remove(runner)
                free.append(runner)
                yield outcome
        time.sleep(0.05)
