"""The option `--ray` of `hopgraph eval`, `index` and `read`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hopgraph.cli.errors import note

if TYPE_CHECKING:
    from hopgraph.cluster.connection import Cluster
    from hopgraph.evaluation.data import Question
    from hopgraph.evaluation.folder import RunFolder
    from hopgraph.evaluation.plan import Variant
    from hopgraph.evaluation.runner import Job


@dataclass(frozen=True)
class Ray:
    """Options of a run on Ray."""

    address: str
    """HOST:PORT, `auto` or `local`."""
    workers: int | None = None
    """Number of shards of an evaluation or a reading; None: one per CPU."""


@contextmanager
def connected(ray: Ray | None) -> Iterator[Cluster | None]:
    """The cluster that `--ray` names, with a note on stderr; None without it."""
    if ray is None:
        yield None
        return
    from hopgraph.cluster import connection

    with connection.connected(ray.address) as cluster:
        note(str(cluster))
        yield cluster


def unfinished(
    folder: RunFolder,
    variants: list[Variant],
    questions: list[Question],
    about: dict[str, Any],
    cluster: object | None,
) -> list[Job]:
    """Remaining jobs of a run whose folder is locked; those of a run on Ray once its shards' results are collected.

    Raises:
        InputError: The run was started on Ray and `cluster` is None, or the reverse.
    """
    from hopgraph.evaluation import runner
    from inference.errors import InputError

    if "ray" in about:
        from hopgraph.cluster.evaluation import collect

        collect(folder)
    todo = runner.unfinished(folder, variants, questions)
    if todo and ("ray" in about) != (cluster is not None):
        if cluster is None:
            raise InputError(
                f"{folder.path}: the run was started with --ray, and its shards are not finished",
                hint="give --ray again; --ray local uses this machine alone",
            )
        raise InputError(
            f"{folder.path}: the run was started without --ray, and its checkpoints are in one store",
            hint="resume it without --ray, or start another run",
        )
    return todo
