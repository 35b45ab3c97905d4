"""The perfect judge of answers."""

from __future__ import annotations

import re

from hopgraph.evaluation.metrics import containment
from hopgraph.simulation.kit import Agents, Prompt, Reply, Role


def _correct(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    said = re.search(r"^Answer given: (.*)$", prompt.text, re.MULTILINE)
    right = re.search(r"^Right answer: (.*)$", prompt.text, re.MULTILINE)
    good = bool(said and right and containment(said[1], right[1].split(" / ")))
    return {"correct": "yes" if good != errs else "no"}


ROLES: dict[str, Role] = {
    "correctness_judge": _correct,
}
