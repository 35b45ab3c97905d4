"""HANRAG: the route, and the chain of its hops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nodes.kit.rendering import plain

if TYPE_CHECKING:
    from nodes.chain import Hop
    from nodes.kit.context import Context

_ROUTES = {
    "straightforward": "answered without a search",
    "single_step": "one retrieval",
    "compound": "sub-questions in parallel",
    "complex": "seed questions in sequence",
}


def picture(state: Mapping[str, Any], context: Context) -> dict[str, Any] | None:
    """The values of `hanrag.html`; None before there is a route."""
    if not state.get("route"):
        return None
    route = str(state["route"])
    chain: list[Hop] = sorted(state.get("chain", []), key=lambda hop: int(hop["id"].rpartition("/")[2]))
    return {
        "route": route.replace("_", " "),
        "about": _ROUTES.get(route, ""),
        "side_by_side": route == "compound",
        "hops": [_hop(hop, context) for hop in chain],
    }


def _hop(hop: Hop, context: Context) -> dict[str, Any]:
    judged = {row["id"]: row["probability"] for row in hop["relevance"]}
    limit = context.threshold_of("ending_discriminator")
    ending = hop["ending"]
    return {
        "question": plain(hop["question"]),
        "answer": plain(hop["answer"]),
        "passages": [
            {"title": plain(ref["title"]), "kept": ref["id"] in hop["kept"], "probability": judged.get(ref["id"])}
            for ref in hop["retrieved"]
        ],
        "flagged": hop["flagged"],
        "ending": "" if ending is None else f"enough? {ending:.3f} {'≥' if ending >= (limit or 0) else '<'} {limit:g}",
        "ended": hop["ended"],
    }
