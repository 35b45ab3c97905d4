"""Templates of HTML pages: one style, and nothing but plain text goes into them unless it is marked otherwise."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["template"]


@lru_cache(maxsize=8)
def template(name: str) -> Template:
    """A template of this folder, with `style` for the style that all pages share."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    folder = files("hopgraph.views")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.globals["style"] = Markup(folder.joinpath("pages.css").read_text("utf-8"))  # noqa: S704  (ours)
    return environment.from_string(folder.joinpath(name).read_text("utf-8"))
