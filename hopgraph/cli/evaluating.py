"""The work of `hopgraph eval`: run, resume, judge; progress and notes on stderr."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hopgraph.cli.errors import note
from hopgraph.cli.on_ray import Ray, connected, unfinished
from hopgraph.cli.stopping import stoppable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hopgraph.cluster.connection import Cluster
    from hopgraph.evaluation.data import Question
    from hopgraph.evaluation.folder import RunFolder
    from hopgraph.evaluation.gate import Check, Gate
    from hopgraph.evaluation.papers import PaperTable
    from hopgraph.evaluation.plan import Variant
    from hopgraph.evaluation.runner import Job, Progress
    from hopgraph.evaluation.scoring import Record
    from hopgraph.evaluation.summary import Summary


@contextmanager
def agents(about: dict[str, Any], questions: list[Question], index: str | None) -> Iterator[None]:
    """Replace the model by perfect agents if the run is a simulation, with a note on stderr."""
    from hopgraph.evaluation.simulated import Simulation
    from hopgraph.simulation.playing import playing

    simulation = Simulation.of(about)
    if simulation is None:
        yield
        return
    note(f"{simulation}")
    with playing(simulation, questions, index):
        yield


async def run(
    folder: RunFolder,
    variants: list[Variant],
    questions: list[Question],
    about: dict[str, Any],
    *,
    contexts: bool,
    again: str,
    ray: Ray | None = None,
) -> None:
    """Start a run, or resume the same one in its folder, and do its unfinished jobs: here, or on a Ray cluster."""
    from hopgraph.evaluation import checkpoints, identity
    from hopgraph.evaluation.shards import own_questions

    about = {**about, **checkpoints.as_row()}
    found = await identity.check(variants, questions, dataset=about["dataset"], contexts=contexts)
    with connected(ray) as cluster:
        if cluster is not None and ray is not None:
            from hopgraph.cluster.evaluation import shard_count

            about = {**about, "ray": {"shards": shard_count(cluster, questions, ray.workers)}}
        identity.start(folder, variants, questions, found, about)
        await _say_gold(questions, found, contexts=contexts)
        with folder.locked():
            about = folder.about()
            todo = unfinished(folder, variants, own_questions(about, questions), about, cluster)
            await _work(folder, todo, again=again, cluster=cluster)


async def _say_gold(questions: list[Question], found: dict[str, Any], *, contexts: bool) -> None:
    """Report gold passages that the index lacks, or knows by title only."""
    from hopgraph.evaluation.gold import not_in

    if found["gold"] == "titles" and not contexts and any(question.gold_ids for question in questions):
        note("the index has no gold passage of the questions by id: they are matched by title")
    if found["index"] and (lost := await asyncio.to_thread(not_in, found["index"]["name"], questions, found["gold"])):
        names = ", ".join(repr(name) for name in lost[:3])
        note(
            f"gold passages missing from index {found['index']['name']}: {len(lost):,}, such as {names}; "
            "they count as not found"
        )


async def resume(
    folder: RunFolder,
    variants: list[Variant],
    questions: list[Question],
    about: dict[str, Any],
    *,
    again: str,
    ray: Ray | None = None,
) -> None:
    """Resume a run. The endpoint is checked only if there are jobs left; a merged run has none, its shards may."""
    from hopgraph.evaluation import identity
    from hopgraph.evaluation.shards import own_questions

    if "merged" in about:
        return
    with folder.locked():
        if todo := unfinished(folder, variants, own_questions(about, questions), about, ray):
            contexts = about["identity"]["contexts"]
            found = await identity.check(variants, questions, dataset=about["dataset"], contexts=contexts)
            identity.start(folder, variants, questions, found, about)
            _say_what_differs(about)
            with connected(ray) as cluster:
                await _work(folder, todo, again=again, cluster=cluster)


async def _work(folder: RunFolder, todo: list[Job], *, again: str, cluster: Cluster | None) -> None:
    """Do the jobs; the folder is locked."""
    from hopgraph.evaluation import runner

    if not todo:
        return
    runner.forget(folder, todo)
    done = folder.records()
    note(f"{len(todo)} to do, {len(done)} done, in {folder.path}; resume with {again}")
    with stoppable(f"resume with {again}"), _progress(todo, done) as show:
        if cluster is None:
            await runner.run_jobs(folder, todo, show)
        else:
            from hopgraph.cluster.evaluation import run_shards

            await run_shards(cluster, folder, todo, show, note)
    if cluster is None:
        _say_calls_in_flight()


def merge(folder: RunFolder, shards: Sequence[Path]) -> None:
    """Merge shards into a new folder, with notes on stderr."""
    from hopgraph.evaluation import merging

    for line in merging.merge(folder, shards):
        note(line)
    note(f"merged {len(shards)} shards into {folder.path}")


async def judge(folder: RunFolder, *, again: str) -> None:
    """Judge the answers without a verdict."""
    from hopgraph.cli.progress import progress
    from hopgraph.evaluation.judge import judge_answers

    with folder.locked(), stoppable(f"resume with {again}"), progress() as shown:
        await judge_answers(folder, lambda done, total: shown.tell("Judging", done, total))


def beside_papers(summary: Summary, dataset: str) -> list[PaperTable]:
    """The papers' tables with the run's figures, with a note if there is none."""
    from hopgraph.evaluation.papers import beside

    if not (found := beside(summary, dataset)):
        note(f"--papers: the papers have no table with these methods for --dataset {dataset}")
    return found


def check_gate(
    gate: Gate | None, about: dict[str, Any], variants: Sequence[Variant], questions: Sequence[Question]
) -> None:
    """Check that the quality gate's earlier run can be compared, with notes on what is not compared.

    Raises:
        InputError: It can't, or the run is a shard.
    """
    from hopgraph.evaluation.shards import Shard
    from inference.errors import InputError

    if gate is not None:
        if shard := Shard.of_run(about):
            raise InputError(
                f"shard {shard}: a quality gate checks all questions of a run",
                hint="give --fail-under, --against and --max-drop with --merge",
            )
        for line in gate.check_fits([variant.name for variant in variants], questions):
            note(line)


def passed(gate: Gate, checks: Sequence[Check]) -> bool:
    """Print the quality gate's outcome in one line, and return whether all checks passed."""
    from hopgraph.evaluation.gate import failures
    from nodes.kit.rendering import counted

    failed = failures(gate, checks)
    note(
        f"hopgraph: quality gate failed: {failed}"
        if failed
        else f"quality gate: {counted(len(checks), 'check')} passed"
    )
    return not failed


def _say_calls_in_flight() -> None:
    """Report the endpoints' limits of calls in flight at the end of the run."""
    from inference.endpoints import limiters

    for limiter in limiters():
        how = "HOPGRAPH_LLM_CONCURRENCY" if limiter.adaptive is None else "auto"
        note(f"endpoint: {limiter.limit} calls in flight ({how})")


def _say_what_differs(about: dict[str, Any]) -> None:
    """Settings that may differ when a run is resumed: old and new values."""
    from hopgraph.evaluation.folder import differences
    from hopgraph.evaluation.identity import surroundings, versions

    if changed := differences(about.get("surroundings") or surroundings(), surroundings()):
        note(f"settings changed since the run started (allowed): {'; '.join(changed)}")
    if about["versions"] != (now := versions()):
        other = [name for name in now if about["versions"].get(name) != now[name]]
        note(f"versions changed since the run started: {', '.join(other)}")


@contextmanager
def _progress(todo: Sequence[Job], done: Sequence[Record]) -> Iterator[Progress]:
    """Show questions, rate, running EM, tokens and time left on stderr."""
    from hopgraph.cli.progress import progress

    total = len(todo) + len(done)
    figures = _Figures([job.variant.name for job in todo])
    for record in done:
        figures.add(record)
    with progress() as shown:
        shown.tell("Evaluating", figures.count, total, figures.text())

        def show(record: Record) -> None:
            figures.add(record)
            shown.tell("Evaluating", figures.count, total, figures.text())

        yield show


class _Figures:
    """Live figures over all results of a run."""

    def __init__(self, variants: Sequence[str]) -> None:
        self.count = 0
        self._failed = 0
        self._tokens = 0.0
        self._em: dict[str, list[float]] = {name: [] for name in variants}

    def add(self, record: Record) -> None:
        """Count a result."""
        self.count += 1
        self._failed += record["status"] == "failed"
        self._tokens += record["cost"]["tokens"]
        if "em" in record["metrics"]:
            self._em.setdefault(record["variant"], []).append(record["metrics"]["em"])

    def text(self) -> str:
        """One line."""
        scores = [f"{name} {100 * sum(values) / len(values):.1f}" for name, values in self._em.items() if values]
        parts = [f"EM {', '.join(scores[:4])}"] if scores else []
        parts += [f"{self._tokens:,.0f} tokens"] if self._tokens else []
        parts += [f"{self._failed} failed"] if self._failed else []
        return ", ".join(parts)
