"""Mutation testing: which small changes of the methods, the fusion and the metrics does no test notice?

    make mutants
    python benchmarks/mutation.py [PACKAGE ...] [--sample 60 --seed 0]

A mutant is one change of one line, such as `>=` for `>` (`mutants.OPERATORS`); it is killed if one of the tests beside
the package that run this line (`covering`) fails, also by running out of time. The score is the share of killed
mutants, those that equivalent.toml says no test can notice left out. Results are kept: a run that is started again goes
on where it was, and tries survivors again if tests have changed. Killed mutants stay killed until their module changes
or `--fresh`.
"""

from __future__ import annotations

import fcntl
import hashlib
import math
import os
import random
import shutil
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkerOutcome, WorkItem, WorkResult
from mutants import Mutant, Outcome, Runner, copy_tree, mutants, preload
from swapping import try_all

ROOT = Path(__file__).resolve().parents[1]
GOAL = 0.9
"""The score that every package is to reach."""
REVIEWED = Path("benchmarks", "equivalent.toml")
_TIMED_OUT = "timed out"


@dataclass(frozen=True)
class Package:
    """Modules and the tests beside them, as patterns relative to the root; the quick tests first."""

    name: str
    modules: Sequence[str]
    tests: Sequence[str]


@dataclass
class Row:
    """The figures of a package."""

    name: str
    total: int = 0
    """Mutants of the package, tried or not."""
    killed: int = 0
    timed_out: int = 0
    equivalent: int = 0
    survivors: list[Mutant] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def tried(self) -> int:
        """Mutants tried that are not equivalent."""
        return self.killed + self.timed_out + len(self.survivors)

    @property
    def score(self) -> float:
        """The share that was killed, 0 to 1."""
        return (self.killed + self.timed_out) / self.tried if self.tried else 1.0


_SETTINGS = "tests/nodes/test_settings.py"
_REVIEW = "tests/graphs/test_review.py"
"""Reviews by a person, of all methods that have them."""
_INDEXED = "tests/graphs/test_with_an_index.py"
"""Searches of an index, of several methods."""
_SHARED = ["tests/graphs/test_baselines.py", _REVIEW, _INDEXED]
"""What all nodes share is also tested by whole graphs; these are quick."""


def _named(name: str, folder: Path, *modules: str) -> Package:
    """Single modules of a folder, each with the test file of its name."""
    tests = [f"{Path('tests') / folder / f'test_{module}'}.py" for module in modules]
    return Package(name, [f"{folder / module}.py" for module in modules], tests)


def packages(root: Path) -> list[Package]:
    """Fusion and metrics, what all nodes share, and the nodes of each method with its graph.

    Methods without a folder of their own are one package, with the roles that several methods share.
    """
    evaluation, stores = Path("hopgraph", "evaluation"), Path("stores")
    found = [
        _named("fusion", stores, "fusion", "ranking"),
        _named("metrics", evaluation, "metrics", "costs", "scoring", "statistics"),
        _named("gold", evaluation, "gold", "control"),
        Package("kit", ["nodes/kit/*.py"], [_SETTINGS, "tests/nodes/kit", *_SHARED]),
    ]
    names = [path.stem for path in sorted((root / "graphs").glob("*.py")) if path.stem not in ("__init__", "about")]
    own = [name for name in names if (root / "nodes" / name).is_dir()]
    for name in own:
        tests = [
            f"tests/nodes/{name}",
            _SETTINGS,
            f"tests/graphs/test_{name}.py",
            f"tests/graphs/test_{name}_*.py",
            _REVIEW,
            _INDEXED,
        ]
        found.append(Package(name, [f"nodes/{name}/*.py", f"graphs/{name}.py"], tests))
    others = [name for name in names if name not in own]
    modules = ["nodes/*.py", "nodes/baselines/*.py", *(f"graphs/{name}.py" for name in others)]
    tests = ["tests/nodes/test_*.py", *_SHARED, *(f"tests/graphs/test_{name}.py" for name in others)]
    return [*found, Package("baselines", modules, tests)]


class Judgement(NamedTuple):
    """What a person found out about a mutant."""

    equivalent: bool
    """No test can notice it; else one could, and the reason says why there is none."""
    reason: str


def reviewed(path: Path) -> dict[tuple[str, str, str], Judgement]:
    """Mutants that a person has judged, by `Mutant.key`; by module, line and "" where all of a line are meant."""
    rows = tomllib.loads(path.read_text("utf-8")) if path.is_file() else {}
    return {
        (row["module"], row["line"], row.get("mutant", "")): Judgement(kind == "equivalent", row["reason"])
        for kind in ("equivalent", "accepted")
        for row in rows.get(kind, [])
    }


def _about(one: Mutant, judged: Mapping[tuple[str, str, str], Judgement]) -> Judgement | None:
    return judged.get(one.key) or judged.get((one.path, one.before, ""))


def measure(
    root: Path,
    package: Package,
    db: WorkDB,
    runners: Sequence[Runner],
    judged: Mapping[tuple[str, str, str], Judgement],
    sample: int | None = None,
    seed: int = 0,
) -> Row:
    """Try the mutants of one package that have no result yet, and count.

    Args:
        root: A copy of the project.
        package: The package.
        db: Results so far; gains those of this run.
        runners: Where to try them.
        judged: From `reviewed`.
        sample: How many mutants to draw at most; None: all.
        seed: Of the sample.
    """
    started = time.monotonic()
    paths = sorted({str(path.relative_to(root)) for pattern in package.modules for path in root.glob(pattern)})
    places = [path for pattern in package.tests for path in sorted(root.glob(pattern))]
    files = list(dict.fromkeys(str(path.relative_to(root)) for path in places))
    found = [mutant for path in paths for mutant in mutants(root, path)]
    row = Row(package.name, total=len(found))
    if sample is not None and sample < len(found):
        found = random.Random(f"{seed} {package.name}").sample(found, sample)
    tried = [one for one in found if not ((about := _about(one, judged)) and about.equivalent)]
    row.equivalent = len(found) - len(tried)
    tests = _digest(root, files)
    known = dict(db.results)
    new = [one for one in tried if one.id not in known]
    there = {item.job_id for item in db.work_items}
    db.add_work_items(WorkItem.single(one.id, _spec(one)) for one in new if one.id not in there)
    again = [one for one in tried if one.id in known and not known[one.id].is_killed and known[one.id].output != tests]
    if new or again:
        if runners[0].root == ROOT:
            preload()
        outcomes = try_all(runners, [*new, *again], files, package.name)
        with typer.progressbar(outcomes, len(new) + len(again), package.name, file=sys.stderr) as bar:
            for outcome in bar:
                known[outcome.mutant.id] = result = _result(outcome, tests)
                db.set_result(outcome.mutant.id, result)
    for one in tried:
        result = known[one.id]
        row.killed += result.is_killed and result.output != _TIMED_OUT
        row.timed_out += result.output == _TIMED_OUT
        row.survivors += [] if result.is_killed else [one]
    row.seconds = time.monotonic() - started
    return row


def _spec(one: Mutant) -> MutationSpec:
    return MutationSpec(one.path, one.operator, one.occurrence, one.start, one.end)


def _result(outcome: Outcome, tests: str) -> WorkResult:
    """As cosmic-ray keeps results: `output` is what failed, or under which tests the mutant survived."""
    if outcome.code == 0:
        return WorkResult(WorkerOutcome.NORMAL, tests, TestOutcome.SURVIVED)
    if outcome.code in (3, 4, 5):
        raise SystemExit(f"the tests of {outcome.mutant} could not be run:\n{outcome.output}")
    return WorkResult(WorkerOutcome.NORMAL, _TIMED_OUT if outcome.code is None else outcome.failed, TestOutcome.KILLED)


def _digest(root: Path, files: Sequence[str]) -> str:
    """Of the tests: what survived others is tried again."""
    hashed = hashlib.sha256()
    for place in map(root.joinpath, files):
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            hashed.update(path.read_bytes())
    return hashed.hexdigest()[:12]


def interval(row: Row) -> tuple[float, float]:
    """Wilson's 95% interval of the score of all mutants, for a sample of them."""
    z, n, p = 1.96, row.tried or 1, row.score
    middle, wide = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (middle - wide) / (1 + z * z / n), (middle + wide) / (1 + z * z / n)


def table(rows: Sequence[Row], sampled: bool) -> str:
    """Markdown: a row a package."""
    lines = ["| package | mutants | tried | killed | timed out | survived | equivalent | score |",
             "|---|---:|---:|---:|---:|---:|---:|---:|"]  # fmt: skip
    for row in rows:
        low, high = interval(row)
        score = f"{row.score:.2f} ({low:.2f} to {high:.2f})" if sampled else f"{row.score:.2f}"
        counts = (row.total, row.tried, row.killed, row.timed_out, len(row.survivors), row.equivalent)
        lines.append(f"| {row.name} | " + " | ".join(f"{count:,}" for count in counts) + f" | {score} |")
    return "\n".join(lines)


def main(
    names: Annotated[list[str] | None, typer.Argument(help="Packages, by default all.")] = None,
    sample: Annotated[int | None, typer.Option(min=1, help="Mutants of each package, drawn at random.")] = None,
    seed: Annotated[int, typer.Option(help="Of the sample.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Test runs side by side, each in a copy of the tree.")] = 1,
    work: Annotated[Path, typer.Option(help="Folder of results and copies.")] = Path(".hopgraph/mutants"),
    fresh: Annotated[bool, typer.Option(help="Forget earlier results.")] = False,
    root: Annotated[Path, typer.Option(help="The project.")] = ROOT,
) -> None:
    """Print a row a package, and the mutants that survived."""
    known = {package.name: package for package in packages(root)}
    if unknown := set(names or ()) - set(known):
        raise typer.BadParameter(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if fresh:
        shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True, exist_ok=True)
    alone = (work / "lock").open("w")
    try:
        fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise SystemExit(f"{work}: another run works there; wait for it, or name another folder (--work)") from None
    os.nice(10)
    runners = [Runner(root.resolve(), work.resolve() / f"tree-{number}") for number in range(jobs)]
    for runner in runners:
        copy_tree(root, runner.tree)
    judged = reviewed(root / REVIEWED)
    with use_db(work / "session.sqlite") as db:
        rows = [measure(runners[0].tree, known[name], db, runners, judged, sample, seed) for name in names or known]
    print(table(rows, sample is not None))
    for row in rows:
        for one in row.survivors:
            print(f"\n{one.path}:{one.line}\n- {one.before}\n+ {one.after}")
            if about := _about(one, judged):
                print(f"  accepted: {about.reason}")
    if low := [f"{row.name} {row.score:.2f}" for row in rows if row.score < GOAL]:
        print(f"\nbelow {GOAL}: {', '.join(low)}", file=sys.stderr)
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
