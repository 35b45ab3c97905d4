"""Templates of HTML pages, with one shared style; all values are escaped unless marked as safe."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment, Template


def template(name: str) -> Template:
    """A template of this folder; `style` is the shared style sheet."""
    return _environment().get_template(name)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    loader = PackageLoader("hopgraph", "views")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    style, _, _ = loader.get_source(made, "pages.css")
    made.globals["style"] = Markup(style)  # noqa: S704  (ours)
    return made
