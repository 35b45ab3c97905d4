"""Check that hopgraph's top-level packages are not shadowed by others."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("inference", "prompts", "stores", "nodes", "graphs")
"""Top-level packages of hopgraph. Their names are common: a folder of the user may shadow one."""


def check_packages() -> None:
    """Check that no other folder or package shadows one of hopgraph's.

    Raises:
        ImportError: One is shadowed; the message names the folder.
    """
    home = Path(__file__).resolve().parent.parent
    for name in PACKAGES:
        spec = find_spec(name)
        places = list(spec.submodule_search_locations or [spec.origin or "?"]) if spec else []
        if not any(Path(place).resolve().parent == home for place in places):
            taken = f"comes from {places[0]}" if places else "is missing"
            raise ImportError(
                f"hopgraph needs its own package '{name}' from {home}, but '{name}' {taken}. Rename that folder, or "
                "start Python from another one (`python -P` leaves the current folder out of the search path)."
            )
