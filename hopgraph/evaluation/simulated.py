"""What a run says of itself where perfect agents answered in the place of a model (`hopgraph.simulation`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["READ_BY_AGENTS", "Simulation", "is_simulated", "said_of"]

READ_BY_AGENTS = "simulation in part: a perfect reader, no model, has read the knowledge base"
"""What has to be said of a run whose answers a model gave, from pairs that none has written."""
_PREFIX = "simulated-"


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
