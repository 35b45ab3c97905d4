"""Named suites: the papers' experiments other than their main and ablation tables, as rows of settings.

The suites of a method are in the module of its name, which is discovered automatically.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules

from hopgraph.evaluation.suites.rows import Row, Suite

__all__ = ["SUITES", "Row", "Suite"]

SUITES: Mapping[str, Suite] = {
    name: suite
    for module in iter_modules(__path__)
    if module.name != "rows"
    for name, suite in import_module(f"{__name__}.{module.name}").SUITES.items()
}
"""By name: `hopgraph eval --suite NAME`."""
