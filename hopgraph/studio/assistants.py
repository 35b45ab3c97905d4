"""Named settings of every method for Studio to choose from: the paper's, and one for each ablation."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast, get_args

from hopgraph.methods import METHODS, READERS, context_class, make_context
from hopgraph.origins import NAMESPACE

if TYPE_CHECKING:
    from langgraph_sdk.client import SyncLangGraphClient

__all__ = ["Assistant", "assistants", "create_assistants"]


@dataclass(frozen=True)
class Assistant:
    """Settings of a method under a name."""

    method: str
    name: str
    description: str
    context: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The same for the same method and name, so that none is made twice."""
        return str(uuid.uuid5(NAMESPACE, f"assistant\0{self.method}\0{self.name}"))


def assistants(index: str | None = None) -> list[Assistant]:
    """All of them.

    Args:
        index: The index that they search.
    """
    searched = {"index": index} if index else {}
    made = []
    for method, about in (METHODS | READERS).items():
        cls = context_class(method)
        if index:
            made.append(Assistant(method, f"{method} on {index}", f"{about}; searches {index}", searched))
        plain, paper = (make_context(method, {"preset": preset}) for preset in ("default", "paper"))
        if paper.mode != plain.mode or cls.paper:
            changed = ", ".join(sorted({"retriever", *cls.paper}))
            made.append(
                Assistant(
                    method, f"{method}: paper", f"The paper's settings ({changed})", {"preset": "paper", **searched}
                )
            )
        for part in _ablations(method):
            made.append(Assistant(method, f"{method}: without {part}", "An ablation", {"ablate": [part], **searched}))
    return made


def _ablations(method: str) -> list[str]:
    """What the method's `ablate` can name."""
    ablate = context_class(method).model_fields.get("ablate")
    (literal,) = get_args(ablate.annotation) if ablate is not None else (None,)
    return [str(part) for part in get_args(literal)]


def create_assistants(client: SyncLangGraphClient, index: str | None) -> int:
    """Make those that a server does not have; of those it has only the index is changed. Returns how many it has."""
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
