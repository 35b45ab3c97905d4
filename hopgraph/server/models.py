"""The served models: every method, on the server's index or on a named one (`prism`, `prism:mine`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hopgraph.methods import METHODS, context_class
from hopgraph.server.errors import ApiError
from inference.errors import did_you_mean
from stores.index import list_indexes
from stores.manifest import index_folder


@dataclass(frozen=True)
class Served:
    """A method on an index."""

    id: str
    method: str
    index: str | None

    def row(self) -> dict[str, Any]:
        """The entry of OpenAI's list of models. Reads when its index was built."""
        return {
            "id": self.id,
            "object": "model",
            "created": _built(self.index) if self.index else 0,
            "owned_by": "hopgraph",
            "name": METHODS[self.method] + (f", on {self.index}" if self.index else ""),
        }


def _built(index: str) -> int:
    """Unix time of an index's last build; 0 if it has been deleted."""
    try:
        return int((index_folder(index) / "current").stat().st_mtime)
    except OSError:
        return 0


def served_models(default: str | None, methods: Iterable[str] = METHODS) -> dict[str, Served]:
    """All models by id. Reads names of indexes.

    Args:
        default: Index of models that name none. Default: the only index.
        methods: Their methods.
    """
    indexes = list_indexes()
    default = default or (indexes[0] if len(indexes) == 1 else None)
    rows = []
    for method in methods:
        if not context_class(method).searches:
            rows.append(Served(method, method, None))
            continue
        if default in indexes:
            rows.append(Served(method, method, default))
        rows += [Served(f"{method}:{name}", method, name) for name in indexes]
    return {row.id: row for row in rows}


def find_model(name: str, default: str | None) -> Served:
    """A model by its id. Reads names of indexes.

    Raises:
        ApiError: It is unknown.
    """
    method = name.partition(":")[0]
    if found := served_models(default, [method] if method in METHODS else []).get(name):
        return found
    models = served_models(default)
    hint = "name an index, such as " if f"{name}:" in {key[: len(name) + 1] for key in models} else ""
    near = next((key for key in models if key.startswith(f"{name}:")), "") if hint else did_you_mean(name, models)
    message = f"the model {name[:200]!r} does not exist: {hint}{near}".rstrip(": ")
    raise ApiError(404, f"{message}; GET /v1/models lists them", code="model_not_found", param="model")
