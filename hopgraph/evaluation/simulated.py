"""Descriptions of simulated runs: perfect agents instead of a model (`hopgraph.simulation`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

READ_BY_AGENTS = "simulation in part: a perfect reader, no model, has read the knowledge base"
"""Note on a run in which a model answers from pairs that perfect agents wrote."""
_PREFIX = "simulated-"


@dataclass(frozen=True)
class Simulation:
    """Parameters of perfect agents."""

    wrong: float = 0.0
    """Probability that a reply is wrong."""
    seed: int = 0

    @property
    def model(self) -> str:
        """Model name, different for different simulations."""
        return f"{_PREFIX}wrong-{self.wrong:g}-seed-{self.seed}" if self.wrong else f"{_PREFIX}perfect"

    def __str__(self) -> str:
        """Note shown with the results."""
        if not self.wrong:
            return "simulation: perfect agents built from the gold annotations, no model"
        return f"simulation: agents built from the gold annotations, wrong with probability {self.wrong:g}, no model"

    @property
    def tag(self) -> str:
        """Short tag for the name of a variant."""
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
    """Whether a model name belongs to perfect agents."""
    return model.startswith(_PREFIX)


def said_of(about: Mapping[str, Any]) -> str:
    """Note on the simulation of a run, from its `run.json`; "" if nothing is simulated."""
    if simulation := Simulation.of(about):
        return str(simulation)
    found = about["identity"]
    bases = [found.get("knowledge_base"), *found.get("other_knowledge_bases", [])]
    return READ_BY_AGENTS if any(base and base.get("simulated") for base in bases) else ""
