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
"""The class of each route that the encoder tells apart: whatever takes several searches is of class C."""


class ComplexityChoice(BaseModel):
    """Output of the classifier."""

    route: Annotated[Complexity, BeforeValidator(normalized)]
