"""Output of Adaptive-RAG's classifier (Jeong et al. 2024, Sec. 3.2)."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator

from nodes.baselines.context import Complexity
from nodes.router import normalized


class ComplexityChoice(BaseModel):
    """Output of the classifier."""

    route: Annotated[Complexity, BeforeValidator(normalized)]
