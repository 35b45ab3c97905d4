"""An evaluation with perfect agents in the place of a model."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from hopgraph.evaluation.data import Question
from hopgraph.evaluation.metrics import normalise_title
from hopgraph.simulation.agents import PerfectAgents
from hopgraph.simulation.endpoint import Endpoint
from hopgraph.simulation.gold import cases_of
from inference.errors import InputError
from inference.settings import get_settings
from stores.passages import Passage

__all__ = ["READ_BY_AGENTS", "Simulation", "gold_passages", "is_simulated", "playing", "said_of"]

READ_BY_AGENTS = "simulation in part: a perfect reader, no model, has read the knowledge base"
"""What has to be said of a run whose answers a model gave, from pairs that none has written."""
_PREFIX = "simulated-"
_SERVERS = ("LLM", "GENERATOR", "ATTRIBUTION", "JUDGE")


@dataclass(frozen=True)
class Simulation:
    """What plays the model."""

    wrong: float = 0.0
    """Probability that a reply is wrong."""
    seed: int = 0

    @property
    def model(self) -> str:
        """The name that stands wherever a model's would: two simulations that differ have two."""
        return f"{_PREFIX}wrong-{self.wrong:g}-seed-{self.seed}" if self.wrong else f"{_PREFIX}perfect"

    def __str__(self) -> str:
        """What has to stand wherever its results do."""
        if not self.wrong:
            return "simulation: perfect agents built from the gold annotations, no model"
        return f"simulation: agents built from the gold annotations, wrong with probability {self.wrong:g}, no model"

    @property
    def tag(self) -> str:
        """In a word or two, for the name of a variant."""
        return f"simulated, {self.wrong:g} wrong" if self.wrong else "simulated"

    def as_row(self) -> dict[str, Any]:
        """As `run.json` has it."""
        return {**asdict(self), "said": str(self)}

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> Simulation | None:
        """The simulation of a run by its `run.json`; None: a model answered."""
        row = about.get("simulation")
        return cls(float(row["wrong"]), int(row["seed"])) if row else None


def is_simulated(model: str) -> bool:
    """Whether a model's name is that of agents."""
    return model.startswith(_PREFIX)


def said_of(about: Mapping[str, Any]) -> str:
    """What has to be said of a run by its `run.json`; "" where nothing of it is simulated."""
    if simulation := Simulation.of(about):
        return str(simulation)
    found = about["identity"]
    bases = [found.get("knowledge_base"), *found.get("other_knowledge_bases", [])]
    return READ_BY_AGENTS if any(base and base.get("simulated") for base in bases) else ""


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
    before = dict(os.environ)
    with Endpoint(agents, simulation.model, latency=latency, slots=slots).running() as endpoint:
        for name in _SERVERS:
            for field in ("URL", "MODEL", "API_KEY"):
                os.environ.pop(f"HOPGRAPH_{name}_{field}", None)
        # No reply that a model gave to the same prompt.
        os.environ |= {"HOPGRAPH_LLM_URL": endpoint.url, "HOPGRAPH_CACHE": "off"}
        get_settings.cache_clear()
        try:
            yield endpoint
        finally:
            os.environ.clear()
            os.environ.update(before)
            get_settings.cache_clear()


def gold_passages(questions: Sequence[Question], index: str | None) -> dict[str, list[Passage]]:
    """Gold passages by id and by normalised title, an article that was cut in all its pieces."""
    ids = {key for question in questions for key in question.gold_ids}
    titles = {normalise_title(title) for question in questions for title in question.gold_titles}
    found: dict[str, list[Passage]] = defaultdict(list)
    for passage in _given(questions) if index is None else _indexed(index):
        key = passage.source or passage.id
        if key in ids:
            found[key].append(passage)
        if (title := normalise_title(passage.title)) in titles:
            found[title].append(passage)
    return dict(found)


def _indexed(index: str) -> Iterator[Passage]:
    from stores.index import open_index

    for chunk in open_index(index).passages():
        yield from chunk


def _given(questions: Sequence[Question]) -> Iterator[Passage]:
    """The passages that questions bring along, with the sentences that they will have."""
    from stores.sentences import split_sentences

    rows = {(row["title"], row["text"]): row for question in questions for row in question.contexts}
    bare = [key for key, row in rows.items() if not row.get("sentences")]
    split = dict(zip(bare, split_sentences([text for _, text in bare]), strict=True))
    for (title, text), row in rows.items():
        yield Passage("", title, text, tuple(row.get("sentences") or split[title, text]))
