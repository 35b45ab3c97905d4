"""Assistants (named settings) of every method for Studio: the paper's, and one per ablation."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast, get_args

from hopgraph.methods import METHODS, READERS, context_class, make_context
from hopgraph.origins import NAMESPACE

if TYPE_CHECKING:
    from langgraph_sdk.client import SyncLangGraphClient


@dataclass(frozen=True)
class Assistant:
    """Named settings of a method."""

    method: str
    name: str
    description: str
    context: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Derived from method and name, so that creation is idempotent."""
        return str(uuid.uuid5(NAMESPACE, f"assistant\0{self.method}\0{self.name}"))


def assistants(index: str | None = None) -> list[Assistant]:
    """All assistants.

    Args:
        index: The index to search.
    """
    searched = {"index": index} if index else {}
    made = []
    for method, about in (METHODS | READERS).items():
        cls = context_class(method)
        if index:
            made.append(Assistant(method, f"{method} on {index}", f"{about}; searches {index}", searched))
        plain, paper = (make_context(method, {"preset": preset}) for preset in ("default", "paper"))
        searches = cls.searches and method in METHODS and paper.mode != plain.mode
        changed = ", ".join(sorted({*(["retriever"] if searches else []), *cls.paper}))
        if changed:
            made.append(
                Assistant(
                    method, f"{method}: paper", f"The paper's settings ({changed})", {"preset": "paper", **searched}
                )
            )
        for part in _ablations(method):
            made.append(Assistant(method, f"{method}: without {part}", "An ablation", {"ablate": [part], **searched}))
    return made


def _ablations(method: str) -> list[str]:
    """Values of the method's `ablate`."""
    ablate = context_class(method).model_fields.get("ablate")
    (literal,) = get_args(ablate.annotation) if ablate is not None else (None,)
    return [str(part) for part in get_args(literal)]


def create_assistants(client: SyncLangGraphClient, index: str | None) -> int:
    """Create missing assistants on a server, and update the index of existing ones. Returns their number."""
    wanted = assistants(index)
    for assistant in wanted:
        kept = client.assistants.create(
            assistant.method,
            assistant_id=assistant.id,
            name=assistant.name,
            description=assistant.description,
            context=assistant.context,
            metadata={"created_by": "hopgraph"},
            if_exists="do_nothing",
        )
        context = cast("dict[str, Any]", kept.get("context") or {})
        if index and context.get("index") != index:
            client.assistants.update(assistant.id, context=context | {"index": index})
    return len(wanted)
