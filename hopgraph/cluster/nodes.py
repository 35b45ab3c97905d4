"""Checks that each node of a Ray cluster can do the work of this machine."""

from __future__ import annotations

from dataclasses import dataclass

from hopgraph import loop
from hopgraph.cluster.connection import living, set_up, variables_of_workers
from hopgraph.evaluation import identity
from hopgraph.evaluation.folder import differences
from inference.encoders.configured import get_encoder
from inference.errors import HopgraphError, StoreError
from nodes.kit.model import open_endpoint
from prompts.loader import load_prompt, prompt_names
from stores.index import list_indexes
from stores.manifest import Manifest, current_version, index_folder

_PATIENCE = 300.0
"""Seconds that a node may take to start a worker and to check."""


@dataclass(frozen=True)
class NodeReport:
    """A node of the cluster."""

    name: str
    problems: list[str]
    """What keeps it from working; empty if nothing does."""


@dataclass(frozen=True)
class _Seen:
    """What a process has to work with."""

    versions: dict[str, str]
    encoder: str
    indexes: dict[str, str]
    """Hash of each index, by name."""
    prompts: dict[str, str]


def check_nodes() -> list[NodeReport]:
    """Check all nodes that are alive; this process is connected to the cluster."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    seen, variables = _seen(), variables_of_workers(1)
    reports = []
    tasks = {
        name: ray.remote(num_cpus=0, max_retries=0)(check_here)
        .options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))
        .remote(seen, variables)
        for node, name in living().items()
    }
    for name, task in tasks.items():
        try:
            reports.append(NodeReport(name, ray.get(task, timeout=_PATIENCE)))
        except (ray.exceptions.RayError, TimeoutError) as error:
            text = " ".join(str(error).split())
            reports.append(NodeReport(name, [f"runs no task: {text[-300:] or type(error).__name__}"]))
    return reports


def check_here(expected: _Seen, variables: dict[str, str]) -> list[str]:
    """The task: what this node lacks."""
    set_up(variables)
    problems: list[str] = []
    try:
        found = _seen()
        problems += [f"other version: {line}" for line in differences(expected.versions, found.versions)]
        if found.encoder != expected.encoder:
            problems.append(f"encodes with {found.encoder} instead of {expected.encoder}")
        problems += [f"other index: {line}" for line in differences(expected.indexes, found.indexes)]
        problems += [f"other prompt: {line}" for line in differences(expected.prompts, found.prompts)]
        loop.run(_ask())
    except HopgraphError as error:
        problems.append(error.message)
    return problems


async def _ask() -> None:
    endpoint = await open_endpoint(None, "llm")
    await endpoint.check()


def _seen() -> _Seen:
    indexes = {}
    for name in list_indexes():
        version = current_version(index_folder(name))
        try:
            indexes[name] = Manifest.read(version).hash if version else ""
        except StoreError:
            indexes[name] = "damaged"
    prompts = {name: load_prompt(name).hash for name in prompt_names()}
    return _Seen(identity.versions(), get_encoder().id, indexes, prompts)
