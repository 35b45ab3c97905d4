"""An evaluation on a Ray cluster: a task for each shard of the questions, all results in one run folder.

The run's folder is on a disk that all nodes share. `shards/I-of-N` in it is the run of a shard, like one of `--shard`:
when its node dies, Ray starts the task on another one, which resumes the shard from its checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from hopgraph import loop
from hopgraph.cluster.connection import Cluster, set_up, variables_of_workers, worker_count
from hopgraph.cluster.files import Tail, held
from hopgraph.cluster.tasks import RETRIES, finish
from hopgraph.evaluation import identity, runner
from hopgraph.evaluation.data import Question
from hopgraph.evaluation.folder import RunFolder, differences
from hopgraph.evaluation.plan import Variant, restore
from hopgraph.evaluation.runner import Job, Progress
from hopgraph.evaluation.scoring import record_of
from hopgraph.evaluation.shards import Shard, shard_folders
from hopgraph.evaluation.simulated import Simulation
from inference.errors import HopgraphError, InputError

_RESUME = "nothing is lost: resume with `hopgraph eval --resume DIR --ray ADDRESS`"
_OWN = frozenset({"run", "created", "variants", "versions", "surroundings", "identity", "format", "ray"})


def shard_count(cluster: Cluster, questions: Sequence[Question], wanted: int | None) -> int:
    """Number of shards of a new run: one per worker, at most one per question."""
    return max(1, min(worker_count(cluster, wanted), len(questions)))


def collect(folder: RunFolder) -> None:
    """Replace the run's results by those of its shards.

    Raises:
        StoreError: A shard's results are damaged, or the run's can't be written.
    """
    shards = [RunFolder(path) for path in shard_folders(folder.path, folder.about())]
    seen: set[tuple[str, str]] = set()

    def lines() -> Iterator[Mapping[str, Any]]:
        for shard in shards:
            for line in shard.results:
                if (key := (line["variant"], line["id"])) not in seen:
                    seen.add(key)
                    yield line

    folder.results.replace(lines())


async def run_shards(
    cluster: Cluster,
    folder: RunFolder,
    todo: Sequence[Job],
    on_result: Progress | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> None:
    """Run the unfinished shards; results are written to `results.jsonl` as they come.

    Args:
        cluster: The cluster; this process is connected to it.
        folder: The run's folder, locked.
        todo: The unfinished jobs; the folder has the results of all others.
        on_result: Called with each new result.
        note: Called with what an operator should know, such as a node that has died.

    Raises:
        HopgraphError: A shard can't go on; the others are stopped when the connection ends. The run can be resumed.
    """
    import ray

    about = folder.about()
    count = about["ray"]["shards"]
    places = {question.id: number for number, question in enumerate(folder.questions())}
    shards = [Shard(number + 1, count) for number in sorted({places[job.question.id] % count for job in todo})]
    asked = {(job.variant.name, job.question.id) for job in todo}
    paths = [shard_folders(folder.path, about)[shard.number - 1] for shard in shards]
    for path in paths:  # failures that are retried
        RunFolder(path).results.keep(lambda line: (line["variant"], line["id"]) not in asked)
    variables = variables_of_workers(min(len(shards), cluster.cpus))
    task = ray.remote(num_cpus=1, max_retries=RETRIES, scheduling_strategy="SPREAD")(answer_shard)
    given = (str(folder.path.resolve()), variables, identity.versions())
    tasks = {task.remote(shard, *given): f"shard {shard}" for shard in shards}
    tails = [Tail(path / "results.jsonl") for path in paths]
    with folder.results.appending() as append:

        def take() -> None:
            for line in [line for tail in tails for line in tail.new()]:
                if (key := (line["variant"], line["id"])) in asked:
                    asked.remove(key)
                    append(line)
                    if on_result is not None:
                        on_result(record_of(line))

        await finish(tasks, take, note, _RESUME)
    collect(folder)


def answer_shard(
    shard: Shard, path: str, variables: Mapping[str, str], versions: Mapping[str, str]
) -> Exception | None:
    """The task: run or resume a shard.

    Args:
        shard: The shard.
        path: The run's folder.
        variables: The worker's HOPGRAPH_* variables.
        versions: Those of the process that started the run.

    Returns:
        The error that stopped it, with the node's name; None: it is finished.
    """
    import ray

    set_up(variables)
    try:
        if changed := differences(dict(versions), identity.versions()):
            raise InputError(
                f"has other versions: {'; '.join(changed)}", hint="install the same on all nodes of the cluster"
            )
        folder = RunFolder(Path(path))
        if not folder.started:
            raise InputError(f"does not see {path}", hint="--out must be on a disk that all nodes share")
        about = folder.about()
        questions, simulation = folder.questions(), Simulation.of(about)
        index = about["identity"]["index"]
        with _agents(simulation, questions, index["name"] if index else None):
            loop.run(_answer(folder, about, shard, restore(about), questions))
    except HopgraphError as error:
        error.message = f"node {ray.util.get_node_ip_address()}: {error.message}"
        return error
    return None


@contextmanager
def _agents(simulation: Simulation | None, questions: list[Question], index: str | None) -> Iterator[None]:
    from hopgraph.simulation.playing import playing

    with nullcontext() if simulation is None else playing(simulation, questions, index):
        yield


async def _answer(
    folder: RunFolder, about: dict[str, Any], shard: Shard, variants: list[Variant], questions: list[Question]
) -> None:
    own = RunFolder(shard_folders(folder.path, about)[shard.number - 1])
    part = shard.part(questions)
    if own.started and not runner.unfinished(own, variants, part):
        return
    known = about["identity"]
    found = await identity.check(variants, questions, dataset=about["dataset"], contexts=known["contexts"])
    if changed := differences(known, found):
        raise InputError(
            f"finds something else than the run was started with: {'; '.join(changed[:5])}",
            hint="all nodes need the same index, prompts and model: put HOPGRAPH_HOME on a shared disk",
        )
    plan = {key: value for key, value in about.items() if key not in _OWN}
    identity.start(own, variants, questions, found, {**plan, "shard": shard.as_row()})
    async with held(own.locked):
        jobs = runner.unfinished(own, variants, part)
        runner.forget(own, jobs)
        await runner.run_jobs(own, jobs)
