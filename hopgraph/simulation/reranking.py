"""The perfect agent that ranks a search's candidates, for every method (`rerank=listwise`)."""

from __future__ import annotations

from hopgraph.simulation.case import squeezed
from hopgraph.simulation.kit import Agents, Prompt, Reply, Role


def _rank(agents: Agents, prompt: Prompt, errs: bool) -> Reply:
    """Passages that state a fact of the question first, then the others in their order. An error puts them last."""
    facts = [fact for case, _ in prompt.asked for fact in case.facts]

    def states(text: str) -> bool:
        seen = squeezed(text)
        return any(fact.stated_in(seen) for fact in facts)

    gold = [row.number for row in prompt.passages if states(row.text)]
    others = [row.number for row in prompt.passages if row.number not in gold]
    return {"ranking": [int(number) for number in (others + gold if errs else gold + others)]}


RERANKER: dict[str, Role] = {"reranker": _rank}
