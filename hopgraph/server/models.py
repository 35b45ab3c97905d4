"""The served models: every method, on the server's index or on a named one (`prism`, `prism:mine`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hopgraph.methods import METHODS, context_class
from hopgraph.server.errors import ApiError
from inference.errors import did_you_mean
from stores.overview import index_infos


@dataclass(frozen=True)
class Served:
    """A method on an index."""

    id: str
    method: str
    index: str | None
    created: int = 0
    """Unix time of the index; 0 without one."""

    def row(self) -> dict[str, Any]:
        """The entry of OpenAI's list of models."""
        return {
            "id": self.id,
            "object": "model",
            "created": self.created,
            "owned_by": "hopgraph",
            "name": METHODS[self.method] + (f", on {self.index}" if self.index else ""),
        }


def served_models(default: str | None) -> dict[str, Served]:
    """All models by id. Reads folders of indexes.

    Args:
        default: Index of models that name none. Default: the only index.
    """
    from datetime import datetime

    indexes = {info.name: int(datetime.fromisoformat(info.changed).timestamp()) for info in index_infos()}
    default = default or (next(iter(indexes)) if len(indexes) == 1 else None)
    rows = []
    for method in METHODS:
        if not context_class(method).searches:
            rows.append(Served(method, method, None))
            continue
        if default in indexes:
            rows.append(Served(method, method, default, indexes[default]))
        rows += [Served(f"{method}:{name}", method, name, changed) for name, changed in indexes.items()]
    return {row.id: row for row in rows}


def find_model(name: str, default: str | None) -> Served:
    """A model by its id. Reads folders of indexes.

    Raises:
        ApiError: It is unknown.
    """
    models = served_models(default)
    if name in models:
        return models[name]
    hint = "name an index, such as " if f"{name}:" in {key[: len(name) + 1] for key in models} else ""
    near = next((key for key in models if key.startswith(f"{name}:")), "") if hint else did_you_mean(name, models)
    message = f"the model {name[:200]!r} does not exist: {hint}{near}".rstrip(": ")
    raise ApiError(404, f"{message}; GET /v1/models lists them", code="model_not_found", param="model")
