"""Evaluation with perfect agents instead of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import get_args

from hopgraph.evaluation.data import Question
from hopgraph.evaluation.gold import gold_passages
from hopgraph.evaluation.simulated import Simulation
from hopgraph.simulation.agents import PerfectAgents
from hopgraph.simulation.endpoint import Endpoint
from hopgraph.simulation.gold import cases_of
from inference.errors import InputError
from inference.settings import Role, overridden


@contextmanager
def playing(
    simulation: Simulation,
    questions: Sequence[Question],
    index: str | None,
    *,
    latency: float = 0.0,
    slots: int | None = None,
) -> Iterator[Endpoint]:
    """Serve perfect agents as the model in this process, ignoring configured servers.

    Args:
        simulation: Error rate and seed.
        questions: The questions; each needs a gold decomposition with answers.
        index: Index with the gold passages; None: the questions' own contexts.
        latency: Seconds per reply.
        slots: Replies at a time.

    Raises:
        InputError: A question has no decomposition, or the probability is not within 0 to 1.
        StoreError: The index can't be used.
    """
    if not 0 <= simulation.wrong <= 1:
        raise InputError(f"--wrong {simulation.wrong:g}: must be between 0 and 1")
    agents = PerfectAgents(
        cases_of(questions, gold_passages(questions, index)), wrong=simulation.wrong, seed=simulation.seed
    )
    with Endpoint(agents, simulation.model, latency=latency, slots=slots).running() as endpoint:
        servers = {f"{name}_{field}": None for name in get_args(Role) for field in ("url", "model", "api_key")}
        # Without the cache, which may hold a model's reply to the same prompt.
        with overridden(**servers | {"llm_url": endpoint.url, "cache": "off"}):
            yield endpoint
