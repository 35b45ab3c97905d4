"""Adaptive-RAG's classes of questions (Jeong et al. 2024, Sec. 3.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, BeforeValidator

from inference.heads.revelator import Route
from nodes.baselines.context import Complexity
from nodes.router import normalized

__all__ = ["COMPLEXITY", "ComplexityChoice"]

COMPLEXITY: Mapping[Route, Complexity] = {
    "straightforward": "no_retrieval",
    "single_step": "single_step",
    "compound": "multi_step",
    "complex": "multi_step",
}
"""Adaptive-RAG's class for each of the encoder's routes: several searches mean class C."""


class ComplexityChoice(BaseModel):
    """Output of the classifier."""

    route: Annotated[Complexity, BeforeValidator(normalized)]
