"""An evaluation with perfect agents in the place of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hopgraph.evaluation.data import Question
from hopgraph.evaluation.gold import gold_passages
from hopgraph.evaluation.simulated import Simulation
from hopgraph.simulation.agents import PerfectAgents
from hopgraph.simulation.endpoint import Endpoint
from hopgraph.simulation.gold import cases_of
from inference.errors import InputError
from inference.settings import overridden

__all__ = ["playing"]

_SERVERS = ("llm", "generator", "attribution", "judge")


@contextmanager
def playing(
    simulation: Simulation,
    questions: Sequence[Question],
    index: str | None,
    *,
    latency: float = 0.0,
    slots: int | None = None,
) -> Iterator[Endpoint]:
    """Have agents answer in this process, whatever servers the environment names.

    Args:
        simulation: How good they are.
        questions: What they will be asked about; each needs a gold decomposition with answers.
        index: Where the gold passages are, for questions that do not bring their own.
        latency: Seconds that a reply takes.
        slots: Replies at a time.

    Raises:
        InputError: A question has no decomposition, or the probability is none.
        StoreError: The index can't be used.
    """
    if not 0 <= simulation.wrong <= 1:
        raise InputError(f"--wrong {simulation.wrong:g}: must be between 0 and 1")
    agents = PerfectAgents(
        cases_of(questions, gold_passages(questions, index)), wrong=simulation.wrong, seed=simulation.seed
    )
    with Endpoint(agents, simulation.model, latency=latency, slots=slots).running() as endpoint:
        servers = {f"{name}_{field}": None for name in _SERVERS for field in ("url", "model", "api_key")}
        # The cache is off: no reply that a model gave to the same prompt.
        with overridden(**servers | {"llm_url": endpoint.url, "cache": "off"}):
            yield endpoint
