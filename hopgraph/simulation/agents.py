"""Perfect agents: every role of every method, played from gold decompositions and from what the prompt shows.

An agent knows the decomposition of the question, which is what a perfect reader would make of it, and nothing of the
answers but what its prompt says: a fact counts only if its gold sentence is among the passages shown, or if an earlier
step has answered it. So the results tell what retrieval and control flow are worth apart from the model. An agent that
is wrong with a probability errs in the way that its role can: by the seed and the request, so that the same request
gets the same reply.

The roles of method `x` are the table `ROLES` of `hopgraph/simulation/x.py`, by node.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

import hopgraph.simulation
from hopgraph.simulation.endpoint import Completion, Request
from hopgraph.simulation.kit import Agents, Prompt, Role, completion

__all__ = ["PerfectAgents", "roles"]


@cache
def roles(method: str) -> Mapping[str, Role]:
    """The roles of a method by node; none for a method that has no file here."""
    if method not in {module.name for module in iter_modules(hopgraph.simulation.__path__)}:
        return {}
    found: Mapping[str, Role] = getattr(import_module(f"hopgraph.simulation.{method}"), "ROLES", {})
    return found


class PerfectAgents(Agents):
    """A model that plays every role."""

    def __call__(self, request: Request) -> Completion:
        """The reply to a request.

        Raises:
            ValueError: The request is of no role that is known, or a prompt lacks what the role goes by.
        """
        role = roles(request.method).get(request.node)
        if role is None:
            raise ValueError(f"perfect agents do not know the role {request.method}/{request.node}")
        reply = role(self, Prompt(request, self.find), self.errs(request))
        return reply if isinstance(reply, Completion) else completion(reply)
