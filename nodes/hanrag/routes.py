"""HANRAG's four paths (Sec. 4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, get_args

from pydantic import BaseModel, BeforeValidator

from inference.heads.revelator import Route
from nodes.router import normalized

ROUTES: Mapping[Route, Route] = {route: route for route in get_args(Route)}
"""The encoder's classes are the paths themselves."""


class RouteChoice(BaseModel):
    """Output of the router."""

    route: Annotated[Route, BeforeValidator(normalized)]
